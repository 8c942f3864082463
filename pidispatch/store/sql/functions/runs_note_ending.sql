CREATE OR REPLACE FUNCTION public.runs_note_ending()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$ BEGIN
  INSERT INTO uncounted_endings (run_id, trigger_id) VALUES (NEW.id, NEW.trigger_id);
  RETURN NULL;
END $function$;
