#!/bin/sh
# Runs ccache (the first argument) on a compiler's command. A precompiled header that is made anew is removed first: GCC's
# preprocessor would read the old one in the place of the header's text, and ccache would then know the new one by it.
output= header= previous=
for argument; do
  [ "$previous" != -o ] || output=$argument
  [ "$argument" != c++-header ] || header=1
  previous=$argument
done
[ -z "$header" ] || rm -f "$output"
exec "$@"
