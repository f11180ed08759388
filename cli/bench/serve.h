// Subcommand `rivulet bench serve`: load on a running `rivulet serve`.
#pragma once

#include "cli/command.h"

namespace rivulet {

Command BenchServeCommand();

}  // namespace rivulet
