"""Log every change of `spend_windows` inside the database, and replay that log without any code of the product."""

from collections import defaultdict

from sqlalchemy import text

INSTALL = """
CREATE TABLE window_log (
  id bigint GENERATED ALWAYS AS IDENTITY, scope text, unit text, period text, starts_on date,
  before bigint, after bigint);
CREATE FUNCTION log_window() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO window_log (scope, unit, period, starts_on, before, after)
  VALUES (NEW.scope, NEW.unit, NEW.period, NEW.starts_on, CASE TG_OP WHEN 'UPDATE' THEN OLD.used ELSE 0 END, NEW.used);
  RETURN NULL;
END $$;
CREATE TRIGGER log_window AFTER INSERT OR UPDATE ON spend_windows FOR EACH ROW EXECUTE FUNCTION log_window();
"""


def install(database):
    with database.transaction() as connection:
        connection.execute(text(INSTALL))


def replay(database):
    """Each window's values in the order they were written: every change starts where the one before ended."""
    with database.transaction() as connection:
        rows = connection.execute(
            text("SELECT scope, unit, period, starts_on, before, after FROM window_log ORDER BY id")
        ).all()
        final = connection.execute(
            text("SELECT scope, unit, period, starts_on, used FROM spend_windows")
        ).all()
    history = defaultdict(lambda: [0])
    for *window, before, after in rows:
        values = history[tuple(window)]
        assert values[-1] == before, (window, values[-3:], before, after)
        values.append(after)
    assert {tuple(window): used for *window, used in final} == {
        window: values[-1] for window, values in history.items()
    }
    return {window[:3]: values for window, values in history.items()}
