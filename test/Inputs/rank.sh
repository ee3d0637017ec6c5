#!/bin/sh
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# usage: rank.sh show | fail STATUS | stop | count
# A rank that `heddle run` starts: says what it was told; lets rank 1 fail; lets
# rank 0 stop the launcher and all ranks wait for the signal; or lets rank 0 stop
# it twice, and later once more, and all ranks count what they get.
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
count)
  count=0
  trap 'count=$((count + 1))' TERM
  [ "$RANK" = 0 ] && (
    trap '' TERM
    for pause in 0.5 0.3 2.2; do sleep "$pause"; kill -s TERM "$PPID"; done
  ) &
  tries=0
  while [ "$count" -lt 1 ] && [ $((tries += 1)) -lt 100 ]; do sleep 0.1; done
  sleep 1
  early=$count tries=0
  while [ "$count" -lt 2 ] && [ $((tries += 1)) -lt 100 ]; do sleep 0.1; done
  echo "rank $RANK: $early then $count"
  exit 143
  ;;
esac
