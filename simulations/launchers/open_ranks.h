// Detection of a process started with others by mpirun, or by Slurm's srun --mpi=pmix.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/base/status.h"
#include "simulations/launchers/ranks.h"

namespace rivulet {

// Whether the environment has Open MPI's number of processes or PMIx's rank. `variable` gives an environment variable,
// or null.
bool StartedAsRank(const std::function<const char*(const char* name)>& variable);

// Null in a single process. Otherwise MPI's library is loaded, which this program needs only here: librivulet-mpi.so
// beside the program, or in ../lib/rivulet. FAILED_PRECONDITION: it is missing, or cannot start.
StatusOr<std::unique_ptr<Ranks>> OpenRanks();

}  // namespace rivulet
