// Policy of a site for its data and machine: a TOML file of the site, which no coordinator can change. A task that
// violates it is refused with a sentence in the site's log and a reason at the coordinator. The round continues without
// this site.
//
//   [plans]
//   authors = ["ed25519:…"]      # accepted authors of plans (certificates/author.h); an unsigned plan has none
//   ops = ["MatMul", "Add"]      # all ops that a plan may use
//   columns = ["image"]          # all columns of an example that it may read
//   max_epochs = 5               # epochs of a task over the data, all its passes together; repetitions by
//                                # a pass's dataset ops do not count
//
//   [secure]                     # any of these: only plans with secure aggregation, of these bounds at least
//   required = true              # of any bounds
//   min_cohort = 20              # clients that announce keys (privacy.min_cohort)
//   min_survivors = 10           # clients in a sum
//   max_colluding = 3            # clients that may collude with a lying coordinator
//   least_sum = 10               # honest clients in the smallest sum that it may learn
//
//   [budget]
//   memory_megabytes = 2000      # peak memory of tasks (client/training/planned_memory.h), of which a
//                                # quarter is for decoded examples
//   processors = 2               # on which this process may run
//   niceness = 10                # its nice value, 1 to 19: a higher one yields more
//
//   [when]
//   hours = ["20:00-06:00"]      # local time; tasks start then, and a started task is finished
//   max_load = 0.5               # of the last minute, for each processor: an idle machine has about 0
//   min_free_megabytes = 4000    # free memory
//
//   [privacy]
//   max_epsilon = 8              # over all runs of an authority, charged for each answered task
//                                # (privacy_ledger.h)
//   ledger = "/var/lib/ledgers"  # folder of the ledgers, one for each authority
//   delta = 1e-5                 # of that epsilon; the default
//   min_cohort = 100             # updates that a version must plan
//
// A missing key allows anything; an empty list allows nothing.
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
    std::optional<std::vector<std::string>> authors;  // in the form of AuthorText
    std::optional<std::vector<std::string>> ops, columns;
    int64_t max_epochs = 0;  // 0: any
  } plans;
  struct Secure {  // 0: no condition
    bool required = false;
    int64_t min_cohort = 0, min_survivors = 0, max_colluding = 0, least_sum = 0;
    bool asked() const { return required || min_cohort + min_survivors + max_colluding + least_sum > 0; }
  } secure;
  struct Budget {
    int64_t memory_bytes = 0;  // 0: no limit, here and below
    int64_t processors = 0;
    int64_t niceness = 0;
    // A quarter of memory_bytes is a cache for decoded examples, the rest is for a task.
    int64_t TaskBytes() const { return memory_bytes - RowBytes(); }
    int64_t RowBytes() const { return memory_bytes / 4; }
  } budget;
  struct Hours {
    int from = 0, until = 0;  // minutes of the day; over midnight if `until` is earlier
  };
  struct When {
    std::vector<Hours> hours;  // empty: always
    double max_load = 0;       // 0: any
    int64_t min_available_bytes = 0;
    bool Always() const { return hours.empty() && max_load == 0 && min_available_bytes == 0; }
  } when;
  struct Privacy {
    double max_epsilon = 0;  // 0: no budget
    double delta = 1e-5;
    int64_t min_cohort = 0;
    std::string ledger;  // a folder; "": below the client's state
  } privacy;
};

// INVALID_ARGUMENT with FILE:line:column: no TOML, an unknown key (names the nearest), a value out of range, an invalid
// author, or a key's former name.
StatusOr<SitePolicy> ParseSitePolicy(const std::string& toml, const std::string& path);

// Checks whether a plan may run here. FAILED_PRECONDITION, with a reason that may leave the site
// (client/training/failure.h): the author, op, column, number of epochs or the bound of secure aggregation.
Status CheckPlan(const SitePolicy& policy, const Plan& plan);

}  // namespace rivulet
