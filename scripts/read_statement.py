"""Reads statements with the in-toto project's own reader: pip install in-toto-attestation jsonschema.

Usage: python3 scripts/read_statement.py manifests/RUN.json manifests/RUN.provenance.json ...

Takes the manifest of a run, whose predicate must hold by the JSON Schema that is published for it, and the SLSA provenance
statement beside it. Shares no code with Assay.
"""

import json
import sys
from pathlib import Path

import in_toto_attestation.predicates.provenance.v1.provenance_pb2 as provenance_pb2
import in_toto_attestation.v1.statement_pb2 as statement_pb2
import jsonschema
from google.protobuf import json_format
from in_toto_attestation.v1.resource_descriptor import ResourceDescriptor
from in_toto_attestation.v1.statement import Statement

SCHEMA = Path(__file__).resolve().parent.parent / "harness" / "schema" / "run-predicate.v1.json"
RUN = "https://assay.invalid/run/v1"
PROVENANCE = "https://slsa.dev/provenance/v1"


def check_run(predicate):
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    assert schema["$id"] == RUN, "another schema"
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(predicate, schema)
    return f"run {predicate['run']}"


def check_provenance(predicate):
    message = json_format.ParseDict(predicate, provenance_pb2.Provenance())
    for dependency in message.build_definition.resolved_dependencies:
        ResourceDescriptor.copy_from_pb(dependency).validate()
    assert message.build_definition.build_type and message.run_details.builder.id, "no build type or no builder"
    return f"built by {message.run_details.builder.id} from {len(message.build_definition.resolved_dependencies)} things"


CHECKS = {RUN: check_run, PROVENANCE: check_provenance}

if len(sys.argv) < 2:
    sys.exit(__doc__)
for path in sys.argv[1:]:
    text = Path(path).read_text(encoding="utf-8")
    statement = json_format.Parse(text, statement_pb2.Statement())
    Statement.copy_from_pb(statement).validate()
    said = CHECKS[statement.predicate_type](json.loads(text)["predicate"])
    print(f"{path}: {len(statement.subject)} subjects, {statement.predicate_type}, {said}")
