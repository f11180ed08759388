// Resolution of read-write hazards of variables. A read is a view of the variable's memory if nothing overwrites it
// before the read's last use, and a copy otherwise. The producer of an assigned value writes straight into the variable
// if no other node can observe the difference.
#pragma once

#include <span>
#include <vector>

#include "engine/program/program.h"
#include "engine/program/storage.h"

namespace rivulet {

// `steps` in order; reads are storages of kind kVariable with producer -1. May change arena storages to variable ones
// (and mark their kAssign step removed), and variable storages to arena ones with a new kReadCopy step, whose node is
// `reader_of` that storage.
void ResolveVariableHazards(std::vector<Storage>& storages, std::vector<Step>& steps,
                            std::span<const Node* const> reader_of);

}  // namespace rivulet
