"""The errors that coordinators answer with, and the errors of appends in their terms."""

from __future__ import annotations

from typing import Final

from barnabas.protocol.errors import ApiError, ErrorCode

_AS_COORDINATOR: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,  # of a verification; older clients know this
}
"""Errors of an append, and what a client of the coordinator gets. Source: CoordinatorOperationExceptionHelper."""


def as_coordinator(error: ApiError) -> ApiError:
    """The error of an append as a coordinator answers it: clients find their coordinator again, or retry."""
    code = _AS_COORDINATOR.get(error.code)
    return error if code is None else ApiError(code, error.message)


def not_coordinator(name: str) -> ApiError:
    return ApiError(ErrorCode.NOT_COORDINATOR, f"This broker does not coordinate {name}.")


def load_in_progress(name: str) -> ApiError:
    return ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{name} is being loaded.")


def bug(name: str) -> ApiError:
    """The error for an unexpected exception, whose traceback is logged."""
    return ApiError(
        ErrorCode.UNKNOWN_SERVER_ERROR, f"An operation on {name} failed; the broker's log says why."
    )
