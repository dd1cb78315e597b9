"""What a team writes around LightGBM: FastAPI, the same requests and answers, ``Booster.predict``. A peer to measure.

Run by uvicorn as ``benchmarks.lightgbm_service:app``; the model is the file that LIGHTGBM_MODEL names. One thread
predicts, which is faster for 100 documents than two.
"""

from __future__ import annotations

import os

import lightgbm
import numpy as np
from fastapi import FastAPI
from pydantic import BaseModel

booster = lightgbm.Booster(model_file=os.environ["LIGHTGBM_MODEL"])
app = FastAPI()


class Document(BaseModel):
    """A document to be ranked."""

    id: int | str
    features: list[float | None]


class Query(BaseModel):
    """Documents to be put in order."""

    query_id: int | str | None = None
    documents: list[Document]
    top_k: int | None = None


class Ranked(BaseModel):
    """A document at its place."""

    rank: int
    id: int | str
    score: float


class Answer(BaseModel):
    """The documents, the best first."""

    query_id: int | str | None
    version: str = "lightgbm"
    documents: list[Ranked]


@app.post("/rank")
def rank(query: Query) -> Answer:
    """Put documents in order."""
    rows = np.array([document.features for document in query.documents], np.float64)
    scores = booster.predict(rows, num_threads=1)
    order = np.argsort(-scores, kind="stable")[: query.top_k]
    documents = [
        Ranked(rank=place, id=query.documents[number].id, score=scores[number])
        for place, number in enumerate(order, 1)
    ]
    return Answer(query_id=query.query_id, documents=documents)


@app.get("/healthz")
def health() -> str:
    """Say that the service runs."""
    return "ok"
