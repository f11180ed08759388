#include <thread>

#include "engine/compile/compile.h"
#include "engine/program/program.h"
#include "federated/plan/plan.h"
#include "federated/random/streams.h"
#include "federated/weights/model.h"

namespace rivulet {
namespace {

// By the plan's own graph and compiled as the plan says, so that deployed and simulated runs of one seed start from the
// same bits.
StatusOr<std::shared_ptr<Model>> Initialise(const Plan& plan, uint64_t seed) {
  EnterWorkerThread();
  auto model = std::make_shared<Model>(plan.layout());
  Signature signature;
  signature.targets = {plan.model().init_target};
  for (const Slice& slice : plan.layout()->slices()) {
    signature.variables.push_back({slice.name, 0, slice.offset, slice.spec});
  }
  RIVULET_ASSIGN_OR_RETURN(const auto program, CompileProgram(plan.model().graph, signature, plan.compile_options()));
  RIVULET_ASSIGN_OR_RETURN(const auto instance, program->Instantiate());
  RIVULET_ASSIGN_OR_RETURN(AlignedBuffer arena, AlignedBuffer::Create(program->memory().arena_bytes));
  const Buffer params = {model->arena().data(), DType::kFloat32, 0};
  const StreamKey rng = StreamFor(seed, "", Purpose::kInitialise);
  const uint64_t step = 0;
  Bindings bindings;
  bindings.arena = arena.data();
  bindings.buffers = {&params, 1};
  bindings.rng = {&rng, 1};
  bindings.step = {&step, 1};
  RIVULET_RETURN_IF_ERROR(instance->Run(bindings));
  return model;
}

}  // namespace

StatusOr<std::shared_ptr<Model>> InitialModel(const Plan& plan, uint64_t seed) {
  if (plan.external()) {
    return FailedPrecondition("plan '{}' has no graph that would give its variables their first values", plan.name());
  }
  // A thread of its own: whoever calls keeps the floating-point modes it has.
  StatusOr<std::shared_ptr<Model>> model = Internal("not run");
  std::thread worker([&] { model = Initialise(plan, seed); });
  worker.join();
  if (!model.ok()) return Annotate(model.status(), "giving the variables their first values");
  return model;
}

StatusOr<std::shared_ptr<const Model>> DrawModelFor(const Plan& plan, uint64_t seed, std::string_view flat) {
  return InitialModel(plan, ClientKey(seed, flat));
}

}  // namespace rivulet
