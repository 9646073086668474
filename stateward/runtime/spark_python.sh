#!/bin/sh
# The Python of Spark's processes on the driver's host: the driver's own, without the archives that the JVM puts
# first on the import path. They keep no bytecode (import_path.py), and Spark's daemons for planning and its
# runners import PySpark before any module of this package could take them off the path.
set -f
kept=
IFS=:
for entry in $PYTHONPATH; do
  case $entry in
    */python/lib/pyspark.zip | */python/lib/py4j-*-src.zip) ;;
    *) kept=$kept${kept:+:}$entry ;;
  esac
done
unset IFS
PYTHONPATH=$kept exec "$PYSPARK_DRIVER_PYTHON" "$@"
