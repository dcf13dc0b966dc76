# The server in a container, from a clone:
#
#   docker build -t asr-stream .
#   docker run --rm -p 127.0.0.1:8000:8000 asr-stream
#
# docs/guides/server.md has more. podman and buildah read this file, too.
FROM debian:bookworm-slim AS build
RUN apt-get update && apt-get install --yes --no-install-recommends g++ python3-dev python3-venv
COPY . /source
RUN python3 -m venv /opt/asr-stream && /opt/asr-stream/bin/pip install --no-cache-dir '/source[server]'

FROM debian:bookworm-slim
RUN apt-get update \
  && apt-get install --yes --no-install-recommends ffmpeg python3 \
  && rm -rf /var/lib/apt/lists/* \
  && useradd --system --no-create-home asr-stream
COPY --from=build /opt/asr-stream /opt/asr-stream
USER asr-stream
EXPOSE 8000
# Whether it answers: a server that answers 503 is only full.
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s CMD ["/opt/asr-stream/bin/python", "-c", \
  "from http.client import HTTPConnection as C; c = C('127.0.0.1', 8000, 4); c.request('GET', '/healthz'); c.getresponse()"]
ENTRYPOINT ["/opt/asr-stream/bin/asr-stream"]
CMD ["serve", "--host", "0.0.0.0"]
