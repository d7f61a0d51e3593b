"""The JSON schema of a study file, for editors; config/schema/study.schema.json is its printed form."""

import json

from cocal.config.study import Study


def study_schema() -> str:
    """JSON schema text, ending with a newline; printed by `cocal schema`."""
    schema = Study.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "CoCal study"
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
