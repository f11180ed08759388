// A buffer that a run begins as a copy of another: read from the original, and copied only if necessary.
#pragma once

#include <span>
#include <vector>

#include "engine/base/status.h"
#include "engine/program/program.h"
#include "engine/program/storage.h"

namespace rivulet {

// Makes `steps`, which are in order, behave as though the copies were made before the first of them. Reads of memory
// that nobody has written yet go to the buffer that it is a copy of. An update that writes a stretch whole, and whose
// kernel offers FromElsewhere, makes it from there. What is left is copied before the first step.
// `steps` are after ResolveVariableHazards and FuseGradientDescent. INVALID_ARGUMENT: a step writes what is copied
// from, or a copy is of a buffer to itself.
Status LowerBufferCopies(std::span<const BufferCopy> copies, std::vector<Storage>& storages, std::vector<Step>& steps);

}  // namespace rivulet
