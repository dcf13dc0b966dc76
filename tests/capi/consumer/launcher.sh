#!/bin/bash
# Starts the compiler through ccache, if that is installed. ccache's key includes the path of the object that is written
# into the dependency file; the path of build/c_library finds the objects compiled there.
arguments=() previous=
for argument; do
  [[ $previous == -MT ]] && argument=${argument#_deps/asr_stream-build/}
  arguments+=("$argument") previous=$argument
done
exec $(command -v ccache) "${arguments[@]}"
