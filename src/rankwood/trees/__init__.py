"""The tree engine: regression trees on binned features, for every method of the package.

The engine knows arrays only: codes of features, targets, weights. Labels, queries and losses belong to its callers. A
caller describes its trees by ``Policies`` and gets a ``Tree``, whose bytes depend on data, policies and stream, and not
on the number of threads or the order of the rows.

There are three growers, which share splitting and partition:

* best first (``best_first``): the leaf with the greatest gain is split next, until a limit is reached. All methods but
  those below use it, with any number of threads.
* random (``random_trees``): features and cuts are drawn without looking at targets. Without a limit of leaves, and
  without categories, such a tree grows depth first.
* one feature (``one_feature``): every node searches a single feature, which makes a step cheap. Searches over many
  small models use it.

Where the rows lie in several parts, on the machines of a cluster, ``parts`` does the steps of best-first growth for
the rows of a part, many nodes at a time, and ``leader`` decides.

Beside them, ``edges`` finds the stumps of AdaBoost and RankBoost, which are chosen by another criterion than the gain.

The path of one tree::

    grow_tree      grower.py        checks the policies and turns them into GrowthRules and Candidates
      pack         packing.py       target and weight of each row become one int64
      grow         best_first.py    the loop: take the best leaf, split it, find the splits of its children
        steps      steps.py         each step of it in blocks, which the threads of a team share
        histograms splitting.py     sum the packed targets of a node by feature and bin
        cuts       splitting.py     score the cuts of a histogram, choose the best
        subsets    subsets.py       the order of a node's categories, and the set of them that goes left
        partition  partition.py     move the rows of a split node to its children
      leaves       partition.py     the leaf of every row, and the sums of inner nodes
    Tree           grower.py        parallel arrays: feature, threshold, left, right, missing, value, …

``Policies`` hold what a caller may choose, ``row_order`` the order of the rows in the matrix, ``workspace`` the
arrays that the kernels share and the hash that replaces random generators.

The work space during growth: a node owns a range of the bag, and leaves may own a slot of the pool of histograms::

    bag.rows            | 3 9 14 20 | 1 2 5 7 | 0 4 6 8 11 … |     reordered by every split
    bag.packed_targets  | . . .  .  | . . . . | . . . . .  … |     moved together with the rows
                          ^begin      ^end of node 3 = begin of node 4
    nodes               [0: root] [1] [2] [3: begin, end, gain, feature, code, left, …] [4] …
    work.heap           leaves that can be split, the greatest gain first
    work.histograms     [slot 0: candidates × 256] [slot 1: …] …   parent − sibling = other child
    work.rows           the rows of a split that go right, before they are copied back
    work.counters       N_NODES, N_LEAVES, HEAP_SIZE, LAST_SLOT, N_NUMBERED, N_CANDIDATES

Vocabulary
    bag               the rows of one tree, and how often each was drawn
    candidate         a feature that a node searches for a split
    code              the bin of a value, 0 to 254; ``MISSING_BIN`` (255) for a missing value
    cut               a code: values with codes up to it go left
    packed target     target and weight of a row in one int64, ``target << bits | weight``; sums of them are exact
    pilot tree        a tree on a sample of the rows; rows are sorted by its leaves before training
    row, source       a row in the order of the matrix, and the same row in the order of the caller's data
    row-major prefix  a second copy of the first features' codes, row by row, for nodes with scattered rows
    subset            the categories that go left at a node that tests some: 256 bits, one for each code
    stream            the seed of a tree: features and cuts are drawn by a hash of it and the node's path
    weight sum        the sum of ``count * weight`` of the rows of a node: its cover
"""
