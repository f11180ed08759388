// Assignment of a data set's examples to clients, as one arena of indices. A client costs its end offset, its examples'
// indices, and its name unless names are numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "federated/population/population.h"

namespace rivulet {

// Examples of each client. Immutable.
class Shares {
 public:
  // The shares of "client-00000", "client-00001", …: client i has `examples` from ends[i - 1], or 0, up to ends[i].
  static Shares OfNumbered(std::vector<uint64_t> ends, std::vector<uint32_t> examples);
  // The same with these names. INVALID_ARGUMENT: they are not in byte order, or one occurs twice.
  static StatusOr<Shares> OfNamed(std::vector<std::string> names, std::vector<uint64_t> ends,
                                  std::vector<uint32_t> examples);

  int64_t size() const { return static_cast<int64_t>(ends_.size()); }                          // clients
  int64_t examples() const { return ends_.empty() ? 0 : static_cast<int64_t>(ends_.back()); }  // of all clients
  bool numbered() const { return numbered_; }                                                  // made by OfNumbered
  // Clients are 0 .. size() - 1: by number, or in byte order of their names.
  std::string NameAt(int64_t client) const;
  // Indices into the data set, in the client's order.
  std::span<const uint32_t> ExamplesOf(int64_t client) const;
  std::optional<int64_t> Find(std::string_view name) const;
  // The same clients as members of a run, which may outlive the shares.
  const std::shared_ptr<Population>& population() const { return population_; }

 private:
  std::shared_ptr<Population> population_;
  bool numbered_ = true;  // else clients are in the population's order
  std::vector<uint64_t> ends_;
  std::vector<uint32_t> examples_;
};

}  // namespace rivulet
