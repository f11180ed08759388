// Detection of a process started with others by mpirun, or by Slurm's srun --mpi=pmix.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/base/status.h"
#include "simulations/launchers/ranks.h"

namespace rivulet {

// Whether the environment says so: how many processes of Open MPI there are, or PMIx's rank. `variable` gives a
// variable of the environment, or null.
bool StartedAsRank(const std::function<const char*(const char* name)>& variable);

// Null where this process stands alone. Otherwise MPI's library is opened, which this program does not need otherwise:
// librivulet-mpi.so beside the program, or in ../lib/rivulet. FAILED_PRECONDITION: it is not there, or cannot begin.
StatusOr<std::unique_ptr<Ranks>> OpenRanks();

}  // namespace rivulet
