#include "engine/program/program.h"

#include <cxxabi.h>

#include <cstdlib>
#include <typeinfo>

#include "engine/program/call_details.h"
#include "engine/program/instance.h"

namespace rivulet {
namespace {

class CompiledProgram final : public Program {
 public:
  CompiledProgram(Signature signature, std::vector<TensorSpec> fetch_specs, LoweredProgram lowered)
      : signature_(std::move(signature)), fetch_specs_(std::move(fetch_specs)), lowered_(std::move(lowered)) {}
  const Signature& signature() const override { return signature_; }
  std::span<const TensorSpec> fetch_specs() const override { return fetch_specs_; }
  const MemoryPlan& memory() const override { return lowered_.memory; }
  std::span<const Instruction> instructions() const override { return lowered_.instructions; }
  double flops() const override { return lowered_.flops; }
  StatusOr<std::unique_ptr<Instance>> Instantiate() const override { return NewInstance(shared_from_this(), lowered_); }
  const LoweredProgram& lowered() const { return lowered_; }

 private:
  Signature signature_;
  std::vector<TensorSpec> fetch_specs_;
  LoweredProgram lowered_;
};

std::string Demangled(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  const std::string symbol = text == nullptr ? name : text;
  std::free(text);
  return symbol;
}

}  // namespace

std::vector<CallDetails> CallDetailsOf(const Program& program) {
  std::vector<CallDetails> details(program.instructions().size());
  const auto* compiled = dynamic_cast<const CompiledProgram*>(&program);
  if (compiled == nullptr) return details;
  for (size_t i = 0; i < details.size(); ++i) {
    const Call& call = compiled->lowered().calls[i];
    const Kernel& kernel = *call.kernel;
    details[i] = {Demangled(typeid(kernel).name()), static_cast<int64_t>(call.variable_bytes)};
  }
  return details;
}

std::shared_ptr<const Program> NewProgram(Signature signature, std::vector<TensorSpec> fetch_specs,
                                          LoweredProgram lowered) {
  return std::make_shared<CompiledProgram>(std::move(signature), std::move(fetch_specs), std::move(lowered));
}

}  // namespace rivulet
