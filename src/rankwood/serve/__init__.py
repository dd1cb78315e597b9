"""The scoring service: models over HTTP. It loads no training code."""
