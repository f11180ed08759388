#include "engine/program/cast_fusion.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "engine/program/reads_before_cast.h"

namespace rivulet {
namespace {

// Each conversion is removed completely or not at all: if one user still needs its result, the result is computed, and
// is then cheaper to read for all. Users with several converted inputs link conversions, so impossible ones are
// excluded until nothing changes.
class CastFusion {
 public:
  CastFusion(std::vector<Storage>& storages, std::vector<Step>& steps) : storages_(storages), steps_(steps) {}

  void Run() {
    for (size_t i = 0; i < steps_.size(); ++i)
      if (IsCast(steps_[i])) casts_[steps_[i].outputs[0]] = i;
    if (casts_.empty()) return;
    StrikeOutKept();
    while (PrepareUsers()) {
    }
    Apply();
  }

 private:
  struct User {
    size_t step;
    Prepared prepared;
  };

  Storage& storage(int index) { return storages_[static_cast<size_t>(index)]; }

  static bool IsCast(const Step& step) {
    if (step.kind != Step::Kind::kKernel || step.node->type() != "Cast") return false;
    if (step.inputs.size() != 1 || step.outputs.size() != 1) return false;
    const DType from = step.node->input(0).dtype(), to = step.node->outputs()[0].dtype;
    return (from == DType::kFloat32 && to == DType::kBFloat16) || (from == DType::kBFloat16 && to == DType::kFloat32);
  }

  // Excludes conversions with another kind of user, or with a source that is overwritten.
  void StrikeOutKept() {
    std::erase_if(casts_, [&](const auto& cast) { return storage(cast.first).kind != Storage::Kind::kArena; });
    for (size_t i = 0; i < steps_.size(); ++i) {
      const auto* const reader = steps_[i].kind == Step::Kind::kKernel && steps_[i].prepared.kernel != nullptr
                                     ? dynamic_cast<const ReadsBeforeCast*>(steps_[i].prepared.kernel.get())
                                     : nullptr;
      for (const int input : steps_[i].inputs) {
        const auto cast = casts_.find(input);
        if (cast == casts_.end()) continue;
        if (reader == nullptr || !Lasts(steps_[cast->second].inputs[0], cast->second, i)) casts_.erase(cast);
      }
    }
    // Removes conversions without users here: they are read in another way, or are needed for another reason.
    std::erase_if(casts_, [&](const auto& cast) {
      return std::ranges::none_of(
          steps_, [&](const Step& step) { return std::ranges::find(step.inputs, cast.first) != step.inputs.end(); });
    });
  }

  // Whether `source` has the same value in step `end` as in step `begin`.
  bool Lasts(int source, size_t begin, size_t end) {
    if (storage(source).kind != Storage::Kind::kVariable) return true;
    const VariablePlace place = PlaceOf(storage(source));
    for (size_t i = begin; i < end; ++i) {
      const Step& step = steps_[i];
      if (step.writes_variables &&
          std::ranges::any_of(step.variables, [&](const VariablePlace& written) { return written.Overlaps(place); }))
        return false;
      for (const int output : step.outputs)
        if (storage(output).kind == Storage::Kind::kVariable && PlaceOf(storage(output)).Overlaps(place)) return false;
    }
    return true;
  }

  // Prepares the kernels for the users of the conversions. Returns true if a user has none: its conversions are then
  // excluded, and the others must be checked again.
  bool PrepareUsers() {
    users_.clear();
    for (size_t i = 0; i < steps_.size(); ++i) {
      std::vector<DType> from(steps_[i].inputs.size(), DType::kInvalid);
      bool any = false;
      for (size_t input = 0; input < from.size(); ++input) {
        const auto cast = casts_.find(steps_[i].inputs[input]);
        if (cast == casts_.end()) continue;
        from[input] = steps_[cast->second].node->input(0).dtype();
        any = true;
      }
      if (!any) continue;
      const auto& reader = dynamic_cast<const ReadsBeforeCast&>(*steps_[i].prepared.kernel);
      std::optional<Prepared> prepared = reader.ReadingBeforeCast(from);
      if (!prepared) {
        for (const int input : steps_[i].inputs) casts_.erase(input);
        return true;
      }
      users_.push_back({i, *std::move(prepared)});
    }
    return false;
  }

  void Apply() {
    for (User& user : users_) {
      Step& step = steps_[user.step];
      for (int& input : step.inputs) {
        const auto cast = casts_.find(input);
        if (cast == casts_.end()) continue;
        input = steps_[cast->second].inputs[0];
        storage(input).last = std::max(storage(input).last, step.position);
      }
      if (step.scratch >= 0) storage(step.scratch).bytes = 0;
      step.scratch = -1;
      if (user.prepared.scratch_bytes > 0) {
        Storage scratch;
        scratch.bytes = user.prepared.scratch_bytes;
        scratch.first = scratch.last = step.position;
        step.scratch = static_cast<int>(storages_.size());
        storages_.push_back(scratch);
      }
      step.prepared = std::move(user.prepared);
    }
    // Removed storages stay in the list, so that indices do not move, but take no memory.
    std::vector<bool> dead(steps_.size(), false);
    for (const auto& [output, step] : casts_) {
      storage(output).bytes = 0;
      dead[step] = true;
    }
    size_t kept = 0;
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (dead[i]) continue;
      if (kept != i) steps_[kept] = std::move(steps_[i]);
      ++kept;
    }
    steps_.erase(steps_.begin() + static_cast<std::ptrdiff_t>(kept), steps_.end());
  }

  std::vector<Storage>& storages_;
  std::vector<Step>& steps_;
  std::map<int, size_t> casts_;  // by result
  std::vector<User> users_;
};

}  // namespace

void FuseCasts(std::vector<Storage>& storages, std::vector<Step>& steps) { CastFusion(storages, steps).Run(); }

}  // namespace rivulet
