// Policy of a site for its data and machine: a TOML file of the site, which no coordinator can change. A task that it
// forbids is refused with a sentence in the site's log and a reason at the coordinator, and the round continues without
// this site.
//
//   [plans]
//   authors = ["ed25519:…"]      # who may have written plans (certificates/author.h); an unsigned one has no author
//   ops = ["MatMul", "Add"]      # all that a plan may compute with
//   columns = ["image"]          # all that it may read of an example
//   max_epochs = 5               # how often a task may go over the data, all its passes together; what a
//                                # pass repeats by dataset ops of its own is not counted
//
//   [budget]
//   memory_megabytes = 2000      # that tasks may take at their height (client/training/planned_memory.h), of
//                                # which a quarter is for decoded examples
//   processors = 2               # that this process may run on
//   niceness = 10                # its priority, 1 to 19: how far everything else goes first
//
//   [when]
//   hours = ["20:00-06:00"]      # local time; tasks begin then, and one that has begun is done
//   max_load = 0.5               # of the last minute, for each processor: an idle machine has about 0
//   min_free_megabytes = 4000    # memory that is free
//
// A key that is left out allows anything; an empty list allows nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "federated/plan/plan.h"

namespace rivulet {

struct SitePolicy {
  struct Plans {
    std::optional<std::vector<std::string>> authors;  // as AuthorText has them
    std::optional<std::vector<std::string>> ops, columns;
    int64_t max_epochs = 0;  // 0: any
  } plans;
  struct Budget {
    int64_t memory_bytes = 0;  // 0: as much as there is, here and below
    int64_t processors = 0;
    int64_t niceness = 0;
    // Of memory_bytes a quarter is for decoded examples, which are kept as far as that goes, and the rest for a task.
    int64_t TaskBytes() const { return memory_bytes - RowBytes(); }
    int64_t RowBytes() const { return memory_bytes / 4; }
  } budget;
  struct Hours {
    int from = 0, until = 0;  // minutes of the day; over midnight where `until` comes first
  };
  struct When {
    std::vector<Hours> hours;  // none: always
    double max_load = 0;       // 0: any
    int64_t min_available_bytes = 0;
    bool Always() const { return hours.empty() && max_load == 0 && min_available_bytes == 0; }
  } when;
};

// INVALID_ARGUMENT with FILE:line:column: no TOML, a key that there is not (names the nearest), a value out of its
// range, an author that is none.
StatusOr<SitePolicy> ParseSitePolicy(const std::string& toml, const std::string& path);

// Checks whether a plan may run here. FAILED_PRECONDITION, with a reason that may leave the site
// (client/training/failure.h): the author, op, column or number of epochs.
Status CheckPlan(const SitePolicy& policy, const Plan& plan);

}  // namespace rivulet
