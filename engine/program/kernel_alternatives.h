// Alternative implementations of an op's kernel, by name, for measurements side by side (`rivulet bench op`). No
// program ever runs one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/program/kernel.h"

namespace rivulet {

class KernelAlternatives {
 public:
  static KernelAlternatives& Global();
  // `prepare` fails with UNIMPLEMENTED for unsupported shapes.
  void Register(std::string op, DType dtype, std::string name, PrepareFn prepare);
  struct Alternative {
    std::string op;
    DType dtype;
    std::string name;
    PrepareFn prepare;
  };
  // For the CPU; sorted by name.
  std::vector<const Alternative*> Of(std::string_view op, DType dtype) const;

 private:
  std::vector<Alternative> all_;
};

namespace internal {
struct KernelAlternativeRegistration {
  KernelAlternativeRegistration(const char* op, DType dtype, const char* name, PrepareFn prepare) {
    KernelAlternatives::Global().Register(op, dtype, name, std::move(prepare));
  }
};
}  // namespace internal

// RIVULET_KERNEL_ALTERNATIVE("MatMul", float, "eigen", PrepareEigen<float>);
#define RIVULET_KERNEL_ALTERNATIVE(op, type, name, prepare) \
  RIVULET_KERNEL_ALTERNATIVE_IMPL_(op, type, name, prepare, __COUNTER__)
#define RIVULET_KERNEL_ALTERNATIVE_IMPL_(op, type, name, prepare, counter) \
  RIVULET_KERNEL_ALTERNATIVE_IMPL2_(op, type, name, prepare, counter)
#define RIVULET_KERNEL_ALTERNATIVE_IMPL2_(op, type, name, prepare, counter)                                 \
  [[maybe_unused]] static const ::rivulet::internal::KernelAlternativeRegistration rivulet_other_##counter( \
      op, ::rivulet::kDTypeOf<type>, name, prepare)

}  // namespace rivulet
