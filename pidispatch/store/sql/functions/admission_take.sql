CREATE OR REPLACE FUNCTION public.admission_take(asked jsonb, OUT mine boolean, OUT paid boolean, OUT known integer, OUT stop text, OUT stopped_by text, OUT stop_limit integer, OUT seen jsonb, OUT used bigint[], OUT new_attempt integer, OUT new_epoch integer)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
DECLARE
  the_run bigint := asked->'run';
  the_host text := asked->>'host';
  room integer := asked->'capacity';
  claim jsonb := asked->'claim';
  locked record;
  cap record;
  bound integer;
  first_day date;
  this_window bigint;
  now_used bigint;
  keys text[];
  windows bigint[] := '{}';
  amounts bigint[] := '{}';
  is_new boolean;
  made bigint[] := '{}';
  paused text[] := '{}';
  slots jsonb := '[]';
  counted jsonb := '[]';
  taken integer;
  today date := (now() AT TIME ZONE 'UTC')::date;
BEGIN
  -- The run first; without it no scope is waited for. Others hold it for no longer than a look takes.
  SELECT r.attempt > 0 AND EXISTS (SELECT 1 FROM reservations v WHERE v.run_id = r.id AND v.state = 'held') INTO paid
    FROM runs r WHERE r.id = the_run AND r.epoch = (asked->'epoch')::integer AND r.state IN ('queued', 'deferred')
    FOR NO KEY UPDATE OF r;
  mine := FOUND;
  IF NOT mine THEN RETURN; END IF;

  known := 0;
  keys := ARRAY(SELECT jsonb_object_keys(asked->'bounds'));
  FOR locked IN SELECT * FROM scopes WHERE key = ANY(keys) ORDER BY key FOR NO KEY UPDATE LOOP
    known := known + 1;
    bound := asked->'bounds'->>locked.key;
    slots := slots || jsonb_build_object('scope', locked.key, 'occupied', locked.occupied, 'limit', bound);
    IF locked.paused_at IS NOT NULL THEN
      paused := paused || locked.key;
    END IF;
    IF stop IS NULL AND locked.occupied >= bound THEN
      stop := 'scope'; stopped_by := locked.key; stop_limit := locked."limit";
    END IF;
  END LOOP;
  -- A pause locks the table, so it has returned before the rows above were locked, or it waits for this transaction.
  IF EXISTS (SELECT 1 FROM scopes WHERE key = '*' AND paused_at IS NOT NULL) THEN
    paused := array_prepend('*', paused);
  END IF;
  IF cardinality(paused) > 0 THEN
    stop := 'paused';
    seen := jsonb_build_object('pause', paused);
    RETURN;
  END IF;
  seen := jsonb_build_object('pause', paused, 'slots', slots);
  IF known < cardinality(keys) THEN stop := 'unknown'; END IF;
  IF stop IS NOT NULL THEN RETURN; END IF;

  PERFORM 1 FROM hosts WHERE name = the_host FOR NO KEY UPDATE;
  IF EXISTS (SELECT 1 FROM jsonb_to_recordset(asked->'files') AS f (name text, place text, digest text)
             JOIN operator_files o ON o.host = the_host AND o.name = f.name AND o.place = f.place
             WHERE o.digest <> f.digest) THEN
    stop := 'files';
    UPDATE runs SET looked_at = NULL WHERE id = the_run;
    RETURN;
  END IF;
  SELECT o.mutex INTO stopped_by FROM runs o
    WHERE o.state IN ('admitted', 'preparing', 'running', 'stopping', 'finishing') AND o.mutex IS NOT NULL
      AND (asked->'within' ? o.mutex OR asked->>'mutex' = ANY(o.mutex_within)) ORDER BY o.admitted_at LIMIT 1;
  IF FOUND THEN
    stop := 'nested';
    RETURN;
  END IF;
  SELECT count(*) INTO taken FROM runs
    WHERE host = the_host AND state IN ('admitted', 'preparing', 'running', 'stopping', 'finishing');
  seen := seen || jsonb_build_object('room', jsonb_build_object('host', the_host, 'free', room - taken, 'capacity', room));
  IF taken >= room THEN
    stop := 'room';
    UPDATE runs SET looked_at = NULL WHERE id = the_run;
    RETURN;
  END IF;

  -- A further attempt of a run that already paid for its place counts in no window.
  FOR cap IN SELECT * FROM jsonb_to_recordset(CASE WHEN paid THEN '[]' ELSE asked->'caps' END)
      AS each (scope text, unit text, period text, amount bigint, most bigint, facts jsonb) LOOP
    first_day := CASE cap.period WHEN 'day' THEN today WHEN 'week' THEN date_trunc('week', today)::date
                                 ELSE date_trunc('month', today)::date END;
    this_window := NULL;
    IF claim IS NOT NULL AND stop IS NULL THEN
      UPDATE spend_windows w SET used = w.used + cap.amount
        WHERE w.scope = cap.scope AND w.unit = cap.unit AND w.period = cap.period AND w.starts_on = first_day
          AND w.used + cap.amount <= cap.most
        RETURNING w.id, w.used INTO this_window, now_used;
    END IF;
    IF this_window IS NULL THEN  -- full, new, or only asked about
      INSERT INTO spend_windows AS w (scope, unit, period, starts_on)
        VALUES (cap.scope, cap.unit, cap.period, first_day)
        ON CONFLICT (scope, unit, period, starts_on) DO UPDATE SET used = w.used
        RETURNING w.id, w.used + cap.amount, w.xmax = 0 INTO this_window, now_used, is_new;
      IF is_new THEN made := made || this_window; END IF;
      IF now_used > cap.most THEN
        stop := 'window';
      ELSIF claim IS NOT NULL AND stop IS NULL THEN
        UPDATE spend_windows SET used = now_used WHERE id = this_window;
      END IF;
    END IF;
    IF claim IS NOT NULL AND stop IS NULL THEN
      windows := windows || this_window;
      amounts := amounts || cap.amount;
    END IF;
    used := used || now_used;
    counted := counted || (cap.facts || jsonb_build_object('used', now_used));
  END LOOP;
  IF stop IS NOT NULL OR claim IS NULL THEN
    -- What was not counted in all leaves no trace in any.
    UPDATE spend_windows w SET used = w.used - asked.amount
      FROM unnest(windows, amounts) AS asked (id, amount) WHERE w.id = asked.id;
    DELETE FROM spend_windows WHERE id = ANY(made);
    RETURN;
  END IF;

  UPDATE runs SET state = 'admitted', epoch = epoch + 1, attempt = attempt + 1, host = the_host,
         worker = claim->>'worker', provider = claim->>'provider', model = claim->>'model', image = claim->>'image',
         max_turns = (claim->>'max_turns')::integer, max_tokens = (claim->>'max_tokens')::bigint,
         cost_cap_micros = (claim->>'cost_cap')::bigint,
         allowed_models = CASE jsonb_typeof(claim->'allowed_models') WHEN 'array'
           THEN ARRAY(SELECT jsonb_array_elements_text(claim->'allowed_models')) END, mutex = claim->>'mutex', folder_owner = (claim->>'owner')::bigint,
         mutex_within = ARRAY(SELECT jsonb_array_elements_text(coalesce(asked->'within', '[]'))), project = claim->>'project',
         cause = NULL, not_before = NULL, blocked_by = NULL, admitted_at = now(), state_since = clock_timestamp(),
         deadline_at = NULL, looked_at = NULL, admission = (claim->'facts') || seen
           || jsonb_build_object('windows', CASE WHEN paid THEN '"kept"'::jsonb ELSE counted END)
    WHERE id = the_run RETURNING attempt, epoch INTO new_attempt, new_epoch;
  INSERT INTO run_attempts (run_id, attempt, host, engine_id, image_id)
    VALUES (the_run, new_attempt, the_host, claim->>'engine_id', claim->>'image_id');
  IF cardinality(windows) > 0 THEN
    -- What an earlier attempt gave back is there still; before the first there is nothing to be found.
    IF new_attempt = 1 THEN
      INSERT INTO reservations (run_id, window_id, held)
        SELECT the_run, w, amount FROM unnest(windows, amounts) AS asked (w, amount);
    ELSE
      INSERT INTO reservations (run_id, window_id, held)
        SELECT the_run, w, amount FROM unnest(windows, amounts) AS asked (w, amount)
        ON CONFLICT (run_id, window_id) DO UPDATE
          SET state = 'held', held = excluded.held, settled = NULL, closed_at = NULL;
    END IF;
  END IF;
  UPDATE scopes s SET occupied = s.occupied + 1, last_started_at = now() WHERE key = ANY(keys);
  seen := NULL;  -- the row has it
  used := NULL;
END $function$;
