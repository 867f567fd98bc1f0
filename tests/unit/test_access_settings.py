"""What the broker's own pipeline finds in its environment."""

from pathlib import Path

from dueline.access_settings import AccessSettings, pipeline_environment, web_environment


def test_the_pipeline_is_itself_and_has_nobodys_secrets(tmp_path: Path) -> None:
    environ = {
        "PATH": "/bin",
        "DUELINE_TOKEN": "admin:secret",
        "DUELINE_TOKEN_FILE": "mine",
        "DUELINE_SUPER_USER": "admin:secret",
    }

    assert pipeline_environment(AccessSettings(), tmp_path, environ) == {"PATH": "/bin"}
    assert pipeline_environment(AccessSettings(enabled=True), tmp_path, environ) == {
        "PATH": "/bin",
        "DUELINE_TOKEN_FILE": str(tmp_path / "pipeline.token"),
    }


def test_the_web_process_is_whom_the_operator_names_or_else_the_pipeline(tmp_path: Path) -> None:
    guarded = AccessSettings(enabled=True)
    secret = {"DUELINE_SUPER_USER": "admin:secret"}
    pipeline = {"DUELINE_TOKEN_FILE": str(tmp_path / "pipeline.token")}
    named = {"DUELINE_TOKEN": "monitor:secret"}

    assert web_environment(AccessSettings(), tmp_path, secret) == {}
    assert web_environment(guarded, tmp_path, secret) == pipeline
    assert web_environment(guarded, tmp_path, {**secret, **named}) == named
