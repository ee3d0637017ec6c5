#!/bin/sh
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# usage: rank.sh show | fail STATUS | stop
# A rank that `heddle run` starts: says what it was told; lets rank 1 fail; or
# lets rank 0 stop the launcher and all ranks wait for the signal.
case $1 in
show)
  echo "rank $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE" \
    "at $MASTER_ADDR slots $CUDA_VISIBLE_DEVICES"
  echo "says $RANK $2" >&2
  [ -n "$MASTER_PORT" ]
  ;;
fail)
  [ "$RANK" = 1 ] && exit "$2"
  exec sleep 60
  ;;
stop)
  trap 'echo "rank $RANK stops"; exit 143' TERM
  [ "$RANK" = 0 ] && sleep 1 && kill -s TERM "$PPID"
  for second in 1 2 3 4 5 6 7 8 9 10; do sleep 1; done
  ;;
esac
