// The data of all clients where one machine has it.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "client/site.h"
#include "setup/shares.h"

namespace rivulet {

// Every client's share of the one data set.
class SharedData : public ClientData {
 public:
  SharedData(std::shared_ptr<const Dataset> dataset, std::shared_ptr<const Shares> shares)
      : dataset_(std::move(dataset)), shares_(std::move(shares)) {}
  StatusOr<BoundData> Of(std::string_view client_id) const override {
    const std::optional<int64_t> client = shares_->Find(client_id);
    if (!client) return NotFound("this simulation has no data of client '{}'", client_id);
    BoundData data;
    data.dataset = dataset_;
    data.indices = shares_->ExamplesOf(*client);
    return data;
  }

 private:
  const std::shared_ptr<const Dataset> dataset_;
  const std::shared_ptr<const Shares> shares_;
};

}  // namespace rivulet
