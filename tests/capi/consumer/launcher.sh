#!/bin/bash
# Starts the compiler through ccache, if that is installed, as build/c_library does: ccache's key includes the paths of
# the sources, which CMake joins in groups, and of the object that is written into the dependency file.
arguments=() previous=
for argument; do
  case $previous in
    -MT) argument=${argument#_deps/asr_stream-build/} ;;
    -MF | -o) argument=$PWD/$argument ;;
    -c) argument=${argument/consumer-*\/_deps\/asr_stream-build/c_library} ;;
  esac
  arguments+=("$argument") previous=$argument
done
cd ../c_library || exit
exec $(command -v ccache) "${arguments[@]}"
