-- Lesson 6: the document service without any document, its numbers beginning at 1. For the service's own database.

BEGIN;

SET LOCAL lock_timeout = '4s';  -- give up rather than wait behind a forgotten transaction

DO $guard$
BEGIN
    IF current_database() !~ '^backend_training_lab(_[a-z0-9_]+)?$' THEN
        RAISE EXCEPTION 'This script changes only the lab''s database, and you are connected to "%". Nothing was changed.', current_database()
            USING HINT = 'Connect to backend_training_lab (or backend_training_lab_SUFFIX) and run the script again.';
    END IF;
END
$guard$;

DO $empty$
BEGIN
    IF to_regclass('document_service.documents') IS NOT NULL THEN
        TRUNCATE document_service.documents, document_service.requests RESTART IDENTITY;
    END IF;
END
$empty$;

COMMIT;
