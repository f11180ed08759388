// A buffer that starts a run as a copy of another: read from the original, and copied only if necessary.
#pragma once

#include <span>
#include <vector>

#include "engine/base/status.h"
#include "engine/program/program.h"
#include "engine/program/storage.h"

namespace rivulet {

// Makes `steps`, which are in order, behave as if the copies were made before the first of
// them. Reads of memory that is not written yet use the original buffer. An update that writes
// a range completely, and whose kernel offers FromElsewhere, reads the original. The rest is
// copied before the first step. Call after ResolveVariableHazards and FuseGradientDescent.
// INVALID_ARGUMENT: a step writes to an original, or a copy is of a buffer to itself.
Status LowerBufferCopies(std::span<const BufferCopy> copies, std::vector<Storage>& storages, std::vector<Step>& steps);

}  // namespace rivulet
