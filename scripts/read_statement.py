"""Reads a manifest with the in-toto project's own reader: pip install in-toto-attestation.

Usage: python3 scripts/read_statement.py manifests/RUN.json
"""

import sys

import in_toto_attestation.v1.statement_pb2 as statement_pb2
from google.protobuf import json_format
from in_toto_attestation.v1.statement import Statement

with open(sys.argv[1], encoding="utf-8") as file:
    message = json_format.Parse(file.read(), statement_pb2.Statement())
Statement.copy_from_pb(message).validate()
print(f"{len(message.subject)} subjects, predicate {message.predicate_type}")
