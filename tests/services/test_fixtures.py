import psycopg
import redis


def test_the_fixtures_hand_out_a_database_and_a_queue(empty_database_url, redis_url):
    with psycopg.connect(empty_database_url.replace("+psycopg", "")) as connection:
        role, superuser = connection.execute(
            "SELECT current_user, rolsuper FROM pg_roles WHERE rolname = current_user"
        ).fetchone()
    with redis.Redis.from_url(redis_url) as client:
        policy = client.config_get("maxmemory-policy")["maxmemory-policy"]

    assert (role, superuser, policy) == ("pidispatch", False, "noeviction")
