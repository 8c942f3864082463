CREATE OR REPLACE FUNCTION public.spend_adjustments_stay()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$ BEGIN
  RAISE EXCEPTION 'spend_adjustments only grows' USING ERRCODE = 'integrity_constraint_violation';
END $function$;
