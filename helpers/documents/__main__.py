"""Runs the document service until it is killed."""

import argparse
import asyncio
import logging
import os
import sys

from sqlalchemy.exc import DBAPIError
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets

from helpers.diagnosis import explain
from helpers.documents.service import application
from helpers.errors import LabError
from helpers.processes.exits import EXIT_UNAVAILABLE
from helpers.processes.parent import end_with_parent
from helpers.scripts import run_script

TEXTS = {
    "description": (
        "The document service of lesson 6, on 127.0.0.1. Its documents are in the database that DATABASE_URL names."
    ),
    "port": "the port; 0, the default, takes a free one",
    "listening": "Listening on http://127.0.0.1:{port}",
}


async def serve(port: int) -> None:
    """Answer requests for ever."""
    [socket] = bind_sockets(port, "127.0.0.1")
    HTTPServer(application()).add_socket(socket)
    print(TEXTS["listening"].format(port=socket.getsockname()[1]), flush=True)
    await asyncio.Event().wait()


def main() -> int:
    parser = argparse.ArgumentParser(prog="helpers.documents", description=TEXTS["description"])
    parser.add_argument("--port", type=int, default=0, help=TEXTS["port"])
    options = parser.parse_args()
    end_with_parent()
    os.environ["PGAPPNAME"] = "documents"
    logging.getLogger("tornado.access").setLevel(logging.CRITICAL)  # refusals are what the lesson is about
    try:
        run_script("06_idempotent_effects/03_document_service.sql")
        asyncio.run(serve(options.port))
    except LabError as error:
        message = str(error)
    except DBAPIError as error:
        message = explain(error)
    except KeyboardInterrupt:
        return 0
    print(message, file=sys.stderr)
    return EXIT_UNAVAILABLE


if __name__ == "__main__":
    sys.exit(main())
