"""What a request may say and what the service answers, as one schema for checks and documentation."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rankwood.serve.store import FieldError

Value = Annotated[float, Field(strict=True, allow_inf_nan=False)] | None
_EXAMPLE: Any = {
    "query_id": "q1",
    "documents": [{"id": "a", "features": [0.3, 11.0]}, {"id": "b", "features": [0.7, None]}],
    "top_k": 10,
}


class Document(BaseModel):
    """A document to be ranked."""

    model_config = ConfigDict(extra="forbid")
    id: Annotated[str, Field(max_length=1000)] | int
    features: Annotated[
        list[Value] | dict[str, Value],
        Field(
            union_mode="left_to_right",
            description="Values in the model's order, or by name; null, and names left out, are missing values.",
        ),
    ]


class RankRequest(BaseModel):
    """Documents to be put in order for one query."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": _EXAMPLE})
    model: Annotated[
        str | None, Field(description="Which model; may be left out where one is served.")
    ] = None
    query_id: Annotated[
        Annotated[str, Field(max_length=1000)] | int | None,
        Field(description="Given back in the answer."),
    ] = None
    documents: list[Document]
    top_k: Annotated[
        int | None, Field(ge=1, description="Answer with the best so many only; all by default.")
    ] = None
    explain: Annotated[
        int,
        Field(ge=0, le=1000, description="Give the so many largest contributions to each score."),
    ] = 0


class Contribution(BaseModel):
    """What one feature adds to a document's score."""

    feature: str
    value: Annotated[float | None, Field(description="Left out where it is missing.")] = None
    contribution: float


class Ranked(BaseModel):
    """A document at its place; rank 1 is the best."""

    rank: int
    id: str | int
    score: float
    contributions: list[Contribution] | None = None


class RankAnswer(BaseModel):
    """The documents from the best to the worst; equal scores keep the order of the request."""

    model: str
    version: Annotated[str, Field(description="The digest of the model's file.")]
    query_id: str | int | None = None
    base: Annotated[
        float | None, Field(description="With explain: base + contributions = score.")
    ] = None
    documents: list[Ranked]


class ModelAnswer(BaseModel):
    """A model that is served."""

    name: str
    version: str
    kind: str
    estimator: str | None
    features: list[str]
    n_trees: int | None
    problem: Annotated[
        str | None, Field(description="Why the file as it is now could not be loaded, if so.")
    ]


class ModelsAnswer(BaseModel):
    """All models that are served."""

    models: list[ModelAnswer]


class HealthAnswer(BaseModel):
    """The service runs."""

    status: str
    models: int
    in_flight: int


class Problem(BaseModel):
    """What was wrong, and in which field."""

    message: str
    field: str | None = None


class ErrorAnswer(BaseModel):
    """An answer that is none."""

    error: Problem


def parse_request(body: bytes) -> RankRequest:
    """The request in a body, or a ``FieldError`` that names the field."""
    try:
        return RankRequest.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise FieldError(_field_path(first["loc"]), f"{first['msg']}.") from None


def _field_path(location: tuple[Any, ...]) -> str:
    """The path to the field of an error, without the names of the alternatives that were tried."""
    tried = ("list[", "dict[", "nullable[", "constrained-", "str", "int")
    parts = [str(part) for part in location]
    return ".".join(part for part in parts if not part.startswith(tried)) or "body"
