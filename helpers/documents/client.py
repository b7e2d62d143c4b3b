"""Asks the document service for a document, with a time limit, and again where that is safe."""

from collections.abc import Callable

import httpx
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from helpers.errors import LabError
from helpers.repository.idempotency import Json

TIMEOUT_SECONDS = 2.0  # for one answer
PATIENCE_SECONDS = 15.0  # for all tries together

TEXTS = {
    "no_answer": "No answer came from the document service ({kind}).",
    "unavailable": "The document service cannot answer now ({status}).",
    "uncertain": "The document service does not know what became of the request ({status}).",
    "refused": "The document service refused the request ({status}): {message}",
}


class DocumentError(LabError):
    """The document was not created, or nobody knows whether it was."""


class RefusedError(DocumentError):
    """The service has understood the request and says no: trying again would not help."""


class UnavailableError(DocumentError):
    """The service says that it cannot do anything now, and has done nothing."""


class NoConnectionError(UnavailableError):
    """Nobody took the request."""


class NoAnswerError(DocumentError):
    """The request was sent, and no answer came, or none that tells. Perhaps the document exists, perhaps not."""


def create_document(
    url: str, body: Json, key: str | None = None, on_retry: Callable[[str], None] = lambda _: None
) -> Json:
    """Have the service at `url` create a document; `body` has a `title`. Returns its answer, with `document_id`.

    `key` is the idempotency key. With it a request without an answer is sent again, with pauses between the tries that
    grow at random (exponential backoff with full jitter). Without it only a request that has certainly done nothing is
    sent again: after a lost answer, another try could create a second document.

    `on_retry` is called before each further try, with a sentence on the one that failed.
    Raises DocumentError where the last try fails, RefusedError at once where the service says no.
    """
    safe = (UnavailableError, NoAnswerError) if key else (UnavailableError,)
    patience = Retrying(
        retry=retry_if_exception_type(safe),
        wait=wait_random_exponential(multiplier=0.2, max=2),
        stop=stop_after_delay(PATIENCE_SECONDS),
        before_sleep=lambda state: on_retry(str(state.outcome.exception() if state.outcome else "")),
        reraise=True,
    )
    return patience(post, url, body, key)


def post(url: str, body: Json, key: str | None = None) -> Json:
    """One try. Raises DocumentError, one of its kinds."""
    headers = {"Idempotency-Key": key} if key else {}
    try:
        # trust_env: a proxy that the environment names has nothing to do with a service on this machine
        answer = httpx.post(f"{url}/documents", json=body, headers=headers, timeout=TIMEOUT_SECONDS, trust_env=False)
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise NoConnectionError(TEXTS["no_answer"].format(kind=type(error).__name__)) from error
    except httpx.TransportError as error:
        raise NoAnswerError(TEXTS["no_answer"].format(kind=type(error).__name__)) from error
    if answer.status_code == 503:
        raise UnavailableError(TEXTS["unavailable"].format(status=answer.status_code))
    if answer.is_server_error:
        raise NoAnswerError(TEXTS["uncertain"].format(status=answer.status_code))
    if answer.is_error:
        raise RefusedError(TEXTS["refused"].format(status=answer.status_code, message=answer.text))
    created: Json = answer.json()
    return created
