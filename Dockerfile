# The image of every service, from the libraries of requirements-image.txt, the JARs of jars.lock, and the project;
# with `--target spark`, a smaller one for the pods of Spark on Kubernetes; and with `--target s3`, the S3 server of
# docker-compose.yaml.
FROM python:3.11.13-slim-bookworm AS base

RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps tini \
    && rm -rf /var/lib/apt/lists/*

# The user owns the state folder in the image, so that a new named volume belongs to it too.
RUN useradd --create-home --uid 10001 stateward \
    && mkdir -p /opt/stateward /var/lib/stateward \
    && chown stateward:stateward /opt/stateward /var/lib/stateward
USER stateward
WORKDIR /opt/stateward

ENV VIRTUAL_ENV=/opt/stateward/.venv \
    PATH=/opt/stateward/.venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONPATH=/opt/stateward \
    PYSPARK_PYTHON=/opt/stateward/.venv/bin/python \
    PYSPARK_DRIVER_PYTHON=/opt/stateward/.venv/bin/python \
    STATEWARD_PROJECT=/opt/stateward \
    STATEWARD_HOME=/var/lib/stateward \
    AIRFLOW_HOME=/var/lib/stateward/airflow

# Drivers and executors as pods. They are sent the code of their release, so a stream needs no image of its own.
FROM base AS spark
COPY --chown=stateward requirements-spark.txt ./
RUN python -m venv .venv && pip install --no-cache-dir --no-deps --require-hashes -r requirements-spark.txt
COPY --chown=stateward pyproject.toml README.md jars.toml jars.lock ./
COPY --chown=stateward stateward ./stateward
# On the class path of every pod, with Hadoop's client for S3, so that no launch has to send them.
RUN mkdir -p spark_jobs && pip install --no-cache-dir --no-deps --no-build-isolation -e . \
    && stateward jars --no-archive && stateward jars --set s3a \
    && mv jars/spark/*.jar jars/s3a/*.jar "$(python -c 'import pyspark; print(pyspark.__path__[0])')/jars/" \
    && rm -r jars
# Executors are sent files into the folder in which they start.
WORKDIR /var/lib/stateward
ENTRYPOINT ["tini", "-s", "--", "python", "-m", "stateward.platform.spark_container"]

FROM spark AS s3
RUN stateward jars --set s3

FROM base
# Slow to build and seldom changed, so before the project's own files.
COPY --chown=stateward requirements-image.txt ./
RUN python -m venv .venv && pip install --no-cache-dir --no-deps --require-hashes -r requirements-image.txt \
    && find .venv -type d -name example_dags -prune -exec rm -r {} +
COPY --chown=stateward pyproject.toml README.md jars.toml jars.lock ./
COPY --chown=stateward stateward ./stateward
COPY --chown=stateward include ./include
# Hadoop's client for S3 has to be beside Spark's own JARs, in drivers as in executors, and before the archive of
# classes, which is for the class path at its time.
RUN mkdir -p spark_jobs && pip install --no-cache-dir --no-deps --no-build-isolation -e . \
    && stateward jars --set s3a --into /tmp/jars \
    && mv /tmp/jars/s3a/*.jar "$(python -c 'import pyspark; print(pyspark.__path__[0])')/jars/" \
    && stateward jars

COPY --chown=stateward dags ./dags
COPY --chown=stateward spark_jobs ./spark_jobs
COPY --chown=stateward data ./data
