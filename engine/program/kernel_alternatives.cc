#include "engine/program/kernel_alternatives.h"

#include <algorithm>

namespace rivulet {

KernelAlternatives& KernelAlternatives::Global() {
  static KernelAlternatives alternatives;
  return alternatives;
}

void KernelAlternatives::Register(std::string op, DType dtype, std::string name, PrepareFn prepare) {
  all_.push_back({std::move(op), dtype, std::move(name), std::move(prepare)});
}

std::vector<const KernelAlternatives::Alternative*> KernelAlternatives::Of(std::string_view op, DType dtype) const {
  std::vector<const Alternative*> found;
  for (const Alternative& alternative : all_)
    if (alternative.op == op && alternative.dtype == dtype) found.push_back(&alternative);
  std::sort(found.begin(), found.end(), [](const Alternative* a, const Alternative* b) { return a->name < b->name; });
  return found;
}

}  // namespace rivulet
