CREATE OR REPLACE FUNCTION public.runs_terminal_is_final()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$ BEGIN
  IF (NEW.state, NEW.outcome, NEW.reason, NEW.why, NEW.exit_code, NEW.ended_at, NEW.attempt)
     IS DISTINCT FROM (OLD.state, OLD.outcome, OLD.reason, OLD.why, OLD.exit_code, OLD.ended_at, OLD.attempt)
  THEN RAISE EXCEPTION 'run % has ended as %', OLD.public_id, OLD.outcome
       USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  RETURN NEW;
END $function$;
