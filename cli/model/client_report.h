// Measures of a model for each client, and their spread.
#pragma once

#include <vector>

#include "engine/base/json.h"
#include "engine/base/status.h"
#include "federated/weights/model.h"
#include "setup/client_measures.h"
#include "setup/run_setup.h"

namespace rivulet {

// Measures clients over the scenario's shares of the training data. FAILED_PRECONDITION: clients keep layers for
// themselves, so no single model is every client's. Others as RunSetup::shares and MeasureClients.
StatusOr<std::vector<ClientMeasures>> ReportClients(RunSetup& setup, const Model& model);

// A line per measure: mean, percentiles and worst decile over clients, as in the history of runs with clients'
// evaluations. Then a line per client; of many clients those with the largest loss.
std::string ClientsText(const std::vector<ClientMeasures>& clients, size_t columns);
// Adds "clients", an object per client, and "spread", an object with the figures of all.
void AddClients(const std::vector<ClientMeasures>& clients, Json& json);

}  // namespace rivulet
