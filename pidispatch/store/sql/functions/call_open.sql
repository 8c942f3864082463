CREATE OR REPLACE FUNCTION public.call_open(asked jsonb, OUT call bigint, OUT may_micros bigint, OUT may_tokens bigint, OUT refused text)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
DECLARE
  the_run bigint := asked->'run';
  the_attempt smallint := asked->'attempt';
  the_model text := lower((asked->>'provider') || '/' || (asked->>'model'));
  micros bigint := asked->>'micros';
  tokens bigint := asked->>'tokens';
  least_micros bigint := coalesce(asked->>'least_micros', asked->>'micros');
  least_tokens bigint := asked->>'least_tokens';
  left_micros bigint;
  left_tokens bigint;
  lowered text;
  its record;
  spent record;
BEGIN
  -- One lock, the run's, and waited for in turn: two calls of a run cannot both take the last cent, no call slips in
  -- behind the last look at the run, and whoever stops or ends it is not kept waiting by calls that keep coming.
  SELECT r.host, r.scope, r.project, r.allowed_models, r.max_turns, r.max_tokens, r.cost_cap_micros INTO its
    FROM runs r WHERE r.id = the_run AND r.attempt = the_attempt AND r.state = 'running' AND r.stop_reason IS NULL
    FOR NO KEY UPDATE OF r;
  IF NOT FOUND OR NOT EXISTS (SELECT 1 FROM run_attempts a
                              WHERE a.run_id = the_run AND a.attempt = the_attempt AND a.go_at IS NOT NULL) THEN
    refused := 'closed';
    RETURN;
  END IF;
  -- In one snapshot, in which a call is either open or in the sums of its attempt.
  SELECT coalesce(sum(a.used_micros), 0)::bigint + o.micros AS micros,
         coalesce(sum(a.used_tokens), 0)::bigint + o.tokens AS tokens, coalesce(sum(a.used_turns), 0) + o.calls AS turns
    INTO spent
    FROM run_attempts a, (SELECT count(*) AS calls, coalesce(sum(c.held_micros), 0)::bigint AS micros,
                                 coalesce(sum(c.held_tokens), 0)::bigint AS tokens
                          FROM provider_calls c WHERE c.run_id = the_run AND c.state = 'held') o
    WHERE a.run_id = the_run GROUP BY o.calls, o.micros, o.tokens;

  IF EXISTS (SELECT 1 FROM scopes s
             WHERE s.key IN ('*', its.scope, 'project:' || its.project) AND s.stopped_at IS NOT NULL) THEN
    refused := 'stopped';
  ELSIF its.allowed_models IS NOT NULL AND asked->'others' = 'null' THEN
    refused := 'model-policy-unenforceable';
  ELSIF its.allowed_models IS NOT NULL AND EXISTS (
      SELECT 1 FROM (SELECT the_model UNION ALL SELECT lower((asked->>'provider') || '/' || other)
                     FROM jsonb_array_elements_text(asked->'others') AS others (other)) AS named (model)
      WHERE NOT EXISTS (SELECT 1 FROM unnest(its.allowed_models) AS allowed (model) WHERE lower(allowed.model) = named.model)) THEN
    refused := 'model-not-allowed';
  ELSIF spent.turns >= its.max_turns THEN
    refused := 'turn-cap';
  END IF;
  IF refused IS NULL AND its.max_tokens IS NOT NULL THEN
    left_tokens := greatest(its.max_tokens - spent.tokens, 0);
    IF tokens > left_tokens AND least_tokens <= left_tokens THEN
      tokens := left_tokens; lowered := 'token-cap';
    ELSIF tokens > left_tokens THEN
      refused := 'token-cap';
    END IF;
    may_tokens := tokens;
  END IF;
  IF refused IS NULL AND its.cost_cap_micros IS NOT NULL THEN
    left_micros := greatest(its.cost_cap_micros - spent.micros, 0);
    IF micros IS NULL THEN
      refused := 'cost-cap-unenforceable';
    ELSIF micros > left_micros AND least_micros <= left_micros THEN
      micros := left_micros; lowered := 'cost-cap';
    ELSIF micros > left_micros THEN
      refused := 'cost-cap';
    END IF;
    may_micros := micros;
  END IF;

  IF refused IS NOT NULL THEN
    -- An agent may ask again and again: nothing is waited for, and a crash loses no more than this word.
    SET LOCAL synchronous_commit = off;
    UPDATE run_attempts a SET refused_reason = refused, refused_at = clock_timestamp(), refusals = a.refusals + 1,
        refused_needed = CASE refused WHEN 'cost-cap' THEN least_micros WHEN 'token-cap' THEN least_tokens END,
        refused_left = CASE refused WHEN 'cost-cap' THEN left_micros WHEN 'token-cap' THEN left_tokens END
      WHERE a.run_id = the_run AND a.attempt = the_attempt;
    may_micros := NULL; may_tokens := NULL;
    RETURN;
  END IF;
  INSERT INTO provider_calls (run_id, attempt, host, provider, model, api, held_micros, held_tokens, lowered_by, opened_at)
    VALUES (the_run, the_attempt, its.host, asked->>'provider', asked->>'model', asked->>'api', micros, tokens, lowered,
            clock_timestamp())
    RETURNING id INTO call;
END $function$;
