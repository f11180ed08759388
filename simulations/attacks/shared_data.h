// Data of all clients on one machine.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "client/site/site.h"
#include "setup/partitioners/shares.h"

namespace rivulet {

// Every client's share of one data set.
class SharedData : public ClientData {
 public:
  SharedData(std::shared_ptr<const Dataset> dataset, std::shared_ptr<const Shares> shares, std::string name = "train")
      : dataset_(std::move(dataset)), shares_(std::move(shares)), name_(std::move(name)) {}
  StatusOr<BoundData> Of(std::string_view client_id) const override {
    const std::optional<int64_t> client = shares_->Find(client_id);
    if (!client) return NotFound("this simulation has no data of client '{}'", client_id);
    BoundData data{.name = name_};
    data.dataset = dataset_;
    data.indices = shares_->ExamplesOf(*client);
    return data;
  }

 private:
  const std::shared_ptr<const Dataset> dataset_;
  const std::shared_ptr<const Shares> shares_;
  const std::string name_;  // its name in the run's plan
};

}  // namespace rivulet
