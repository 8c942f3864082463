CREATE OR REPLACE FUNCTION public.audit_log_only_grows()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$ BEGIN
  RAISE EXCEPTION 'audit_log only grows' USING ERRCODE = 'integrity_constraint_violation';
END $function$;
