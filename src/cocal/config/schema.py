"""The JSON schema of a study file, which editors use; config/schema/study.schema.json contains its text."""

import json

from cocal.config.study import Study


def study_schema() -> str:
    """Text of the JSON schema, ending with a newline, as `cocal schema` prints it."""
    schema = Study.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "CoCal study"
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
