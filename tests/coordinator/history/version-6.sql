PRAGMA application_id = 1381387348;
PRAGMA user_version = 6;
BEGIN TRANSACTION;
CREATE TABLE attempt (
  attempt_key INTEGER PRIMARY KEY,
  run INTEGER NOT NULL REFERENCES run (run),
  round INTEGER NOT NULL CHECK (round >= 1),
  attempt INTEGER NOT NULL CHECK (attempt >= 1),
  kind INTEGER NOT NULL,
  status INTEGER NOT NULL,
  reason TEXT,
  started INTEGER NOT NULL,
  finished INTEGER NOT NULL,
  folded INTEGER NOT NULL,
  refused INTEGER NOT NULL,
  dropped INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  examples INTEGER NOT NULL,
  train_loss REAL,
  bytes_down INTEGER NOT NULL,
  bytes_up INTEGER NOT NULL,
  train_seconds REAL NOT NULL,
  aggregate_seconds REAL NOT NULL,
  evaluate_seconds REAL NOT NULL,
  noise_multiplier REAL,
  sampling_rate REAL,
  delta REAL,
  epsilon REAL,
  participant_epsilon REAL,
  UNIQUE (run, round, attempt, kind)
) STRICT;
INSERT INTO "attempt" VALUES(1,1,1,1,0,0,NULL,1795977628532,1795977628544,3,0,0,0,18,2.18261730670928955078e+00,0,0,0.012,3.55413999999999968663e-04,8.4027e-05,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "attempt" VALUES(2,1,2,1,0,0,NULL,1795977628544,1795977628545,3,0,0,0,18,1.86717714203728579747e+00,0,0,0.001,3.70312000000000028296e-04,5.7147e-05,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE audit_entry (
  audit INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  action INTEGER NOT NULL,
  operator_id TEXT NOT NULL,
  serial TEXT,
  run_id TEXT,
  client_id TEXT,
  detail TEXT
) STRICT;
INSERT INTO "audit_entry" VALUES(1,1,4,'office',NULL,NULL,NULL,'a short break');
CREATE TABLE blob (
  run INTEGER NOT NULL REFERENCES run (run),
  round INTEGER NOT NULL CHECK (round >= 0),
  name TEXT NOT NULL,
  bytes BLOB NOT NULL,
  UNIQUE (run, name, round)
) STRICT;
INSERT INTO "blob" VALUES(1,0,'configuration',X'5B72756E5D0A6E616D65203D2022646967697473220A726F756E6473203D20320A70617469656E6365203D20300A73656564203D20370A6B6565705F6D6F64656C73203D20226C617374220A6B65726E656C73203D20226E6174697665220A63616368655F6D6567616279746573203D20313032340A0A5B6D6F64656C5D0A707265736574203D20226C6F6769737469635F72656772657373696F6E220A6772617068203D2022220A6F6E6E78203D2022220A617272617973203D2022220A77656967687473203D2022220A6D657472696373203D205B5D0A6C6179657273203D205B5D0A636C6173736573203D20300A6F626A656374697665203D20227370617273655F736F66746D61785F63726F73735F656E74726F7079220A636C6173735F77656967687473203D205B5D0A6C6162656C5F736D6F6F7468696E67203D20302E300A69676E6F72655F6C6162656C203D205B5D0A667265657A65203D205B5D0A706572736F6E616C203D205B5D0A0A5B6D6F64656C2E696E7075745D0A7368617065203D205B5D0A0A5B6D6F64656C2E6C6F72615D0A74617267657473203D205B5D0A0A5B646174615D0A747261696E203D20222F746D702F746D706C733266696F67612F646174612F747261696E2E74667265636F7264220A74657374203D20222F746D702F746D706C733266696F67612F646174612F746573742E74667265636F7264220A7465737473203D205B5D0A76616C69646174696F6E203D2022220A76616C69646174696F6E5F6672616374696F6E203D20302E300A6E616D65203D2022747261696E220A696E7075745F66656174757265203D2022220A6C6162656C5F66656174757265203D20226C6162656C220A0A5B646174612E706172746974696F6E5D0A6B696E64203D2022696964220A636C69656E7473203D20340A73697A6573203D20226576656E220A74616773203D205B5D0A0A5B646174612E73796E74685D0A6B696E64203D2022646967697473220A77726974657273203D20360A746573745F77726974657273203D20320A6578616D706C65735F7065725F777269746572203D20340A73656564203D20330A0A5B636C69656E745D0A65706F636873203D20310A66726F7A656E203D205B5D0A62617463685F73697A65203D20340A73687566666C65203D20747275650A696E7075745F6772617068203D2022220A707265636973696F6E203D2022666C6F61743332220A0A5B636C69656E742E6F7074696D697A65725D0A6B696E64203D2022736764220A6C6561726E696E675F72617465203D20302E310A7765696768745F6465636179203D20302E300A636C69705F6E6F726D203D20302E300A636C69705F76616C7565203D20302E300A0A5B636C69656E742E6C6F73735F7363616C655D0A6B696E64203D20226E6F6E65220A0A5B636C69656E742E7363686564756C655D0A6B696E64203D2022636F6E7374616E74220A7761726D7570203D20300A0A5B616C676F726974686D5D0A6E616D65203D2022666564617667220A0A5B7365727665725D0A636C69656E74735F7065725F726F756E64203D20330A6F7665725F73656C656374696F6E203D20312E300A696E5F666C69676874203D20300A6D61785F7374616C656E657373203D2031300A7374616C656E6573735F6578706F6E656E74203D20302E350A6D696E5F636C69656E7473203D20300A6D696E5F7265706F727473203D20300A646561646C696E65203D203630302E300A6C65617365203D2036302E300A70726573656E6365203D2036302E300A6D61785F617474656D707473203D20300A6C6561726E696E675F72617465203D20312E300A646F776E6C6F6164203D2022663332220A61766572616765203D20302E300A77656967687473203D20226578616D706C6573220A6D61785F776569676874203D2036353533360A76616C75655F62697473203D2031300A73756D5F62697473203D2036340A73746167696E675F6D6567616279746573203D2036340A7061727469616C203D20226D656D6F7279220A636865636B706F696E745F7265706F727473203D2066616C73650A0A5B7365727665722E7363686564756C655D0A6B696E64203D2022636F6E7374616E74220A7761726D7570203D20300A0A5B7365727665722E66696E655F74756E655D0A64617461203D2022220A0A5B73656C656374696F6E5D0A6E616D65203D2022756E69666F726D220A74616773203D205B5D0A6D696E5F6578616D706C6573203D20300A7472616365203D2022220A0A5B707269766163795D0A756E6974203D2022636C69656E74220A636C6970203D20302E300A736563757265203D20226E6F6E65220A0A5B7570646174655D0A636F646563203D2022663332220A0A5B6576616C756174696F6E5D0A6576657279203D20310A62617463685F73697A65203D203130300A6665646572617465645F6576657279203D20300A');
CREATE TABLE client (
  client INTEGER PRIMARY KEY,
  client_id TEXT NOT NULL UNIQUE,
  fingerprint TEXT,
  status INTEGER NOT NULL,
  first_seen INTEGER,
  last_seen INTEGER
) STRICT;
INSERT INTO "client" VALUES(1,'client-00001','ab:cd',0,1795977628544,1795977628545);
INSERT INTO "client" VALUES(2,'client-00002',NULL,0,1795977628544,1795977628544);
INSERT INTO "client" VALUES(3,'client-00003',NULL,0,1795977628544,1795977628545);
INSERT INTO "client" VALUES(4,'client-00000',NULL,0,1795977628545,1795977628545);
INSERT INTO "client" VALUES(5,'tier/east',NULL,0,NULL,NULL);
CREATE TABLE event (
  event INTEGER PRIMARY KEY,
  run INTEGER REFERENCES run (run),
  round INTEGER,
  at INTEGER NOT NULL,
  level INTEGER NOT NULL,
  source TEXT NOT NULL,
  message TEXT NOT NULL
) STRICT;
INSERT INTO "event" VALUES(1,1,NULL,1795977628457,0,'run','started for 2 rounds');
INSERT INTO "event" VALUES(2,1,NULL,1795977628457,0,'aggregation','mean: sums of delta in multiples of 2^-34 with values up to 2^10, weights up to 65536, at most 3 updates a version');
INSERT INTO "event" VALUES(3,1,2,1795977628545,0,'run','finished after round 2');
CREATE TABLE membership (
  run INTEGER NOT NULL REFERENCES run (run),
  client INTEGER NOT NULL REFERENCES client (client),
  from_round INTEGER NOT NULL,
  from_attempt INTEGER NOT NULL,
  tasks INTEGER NOT NULL,
  folded INTEGER NOT NULL,
  refused INTEGER NOT NULL,
  dropped INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  examples INTEGER NOT NULL,
  train_seconds REAL NOT NULL,
  timed INTEGER NOT NULL,
  PRIMARY KEY (run, client)
) STRICT, WITHOUT ROWID;
INSERT INTO "membership" VALUES(1,1,1,1,2,2,0,0,0,12,0.000842641,2);
INSERT INTO "membership" VALUES(1,2,1,1,1,1,0,0,0,6,3.0367e-05,1);
INSERT INTO "membership" VALUES(1,3,1,1,2,2,0,0,0,12,1.12725669999999989628e-02,2);
INSERT INTO "membership" VALUES(1,4,2,1,1,1,0,0,0,6,5.8399e-05,1);
CREATE TABLE metric (
  run INTEGER NOT NULL REFERENCES run (run),
  round INTEGER NOT NULL,
  scope INTEGER NOT NULL,
  client INTEGER REFERENCES client (client),
  name TEXT NOT NULL,
  value REAL,
  right INTEGER,
  total INTEGER,
  CHECK ((scope = 2) = (client IS NOT NULL))
) STRICT;
INSERT INTO "metric" VALUES(1,1,0,NULL,'test/accuracy',NULL,1,8);
INSERT INTO "metric" VALUES(1,1,0,NULL,'test/loss',2.52531671524047851562e+00,NULL,NULL);
INSERT INTO "metric" VALUES(1,2,0,NULL,'test/accuracy',NULL,1,8);
INSERT INTO "metric" VALUES(1,2,0,NULL,'test/loss',2.40348839759826660156e+00,NULL,NULL);
CREATE TABLE model (
  run INTEGER NOT NULL REFERENCES run (run),
  round INTEGER NOT NULL CHECK (round >= 0),
  digest BLOB NOT NULL,
  file TEXT,
  bytes INTEGER NOT NULL,
  parameters INTEGER NOT NULL,
  PRIMARY KEY (run, round)
) STRICT, WITHOUT ROWID;
INSERT INTO "model" VALUES(1,0,X'39C8E613566A1B780F53FA79EC6985D7E10879A5AD8263F08A768A16850C2C64','round-000000.safetensors',31976,7850);
INSERT INTO "model" VALUES(1,1,X'5E9EDDDEF4D00A50DB269AA0495E81C1F4216E95E03DF054CF7D02DD464B5D3E',NULL,31976,7850);
INSERT INTO "model" VALUES(1,2,X'61AD4815B91A2150CB9063D6CB9A66EEC4A0A9D2B60AC41CF2B600A0DE77B455','round-000002.safetensors',31976,7850);
CREATE TABLE note (
  run INTEGER NOT NULL REFERENCES run (run),
  at INTEGER NOT NULL,
  text TEXT NOT NULL
) STRICT;
INSERT INTO "note" VALUES(1,1795977628788,'the first of many');
CREATE TABLE pointer (
  pointer INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  label TEXT NOT NULL,
  run_id TEXT NOT NULL,
  round INTEGER NOT NULL CHECK (round >= 0),
  digest BLOB NOT NULL,
  plan_digest BLOB NOT NULL,
  version INTEGER NOT NULL CHECK (version >= 1),
  share REAL,
  at INTEGER NOT NULL,
  author TEXT,
  note TEXT,
  rolled_back INTEGER NOT NULL
) STRICT;
CREATE TABLE record (
  run INTEGER NOT NULL REFERENCES run (run),
  round INTEGER NOT NULL CHECK (round >= 0),
  digest BLOB NOT NULL,
  record TEXT NOT NULL,
  signature BLOB NOT NULL,
  certificate TEXT,
  PRIMARY KEY (run, round)
) STRICT, WITHOUT ROWID;
INSERT INTO "record" VALUES(1,0,X'4BAD8094B0F9C9D395BEFE5D58E7A80DEF06511EADCEE8D5517A4B897477F112','{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"digits-20261129T184028-3c87/0","digest":{"rivuletModel":"39c8e613566a1b780f53fa79ec6985d7e10879a5ad8263f08a768a16850c2c64"}}],"predicateType":"urn:rivulet:version:1","predicate":{"run":"digits-20261129T184028-3c87","version":0,"previous":null,"earlier":0,"earlierRoot":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","madeMs":1795977628457,"program":"0.2.0","plan":"4534f3026e0ab67651263276183f6dbdeeba9866d677a8337f1f5b52269bb0fc","configuration":"41c938c257af0983e9b6fdf8cb926836afcd06e819323580cd182a2882699af8","base":null,"updates":0,"updatesRoot":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","hasReceipts":false,"privacy":null}}',X'',NULL);
INSERT INTO "record" VALUES(1,1,X'8B1132C6E67083FAEF347E145AF0B652C987578D3665B1F0D97DC4255F08AEF8','{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"digits-20261129T184028-3c87/1","digest":{"rivuletModel":"5e9edddef4d00a50db269aa0495e81c1f4216e95e03df054cf7d02dd464b5d3e"}}],"predicateType":"urn:rivulet:version:1","predicate":{"run":"digits-20261129T184028-3c87","version":1,"previous":"4bad8094b0f9c9d395befe5d58e7a80def06511eadcee8d5517a4b897477f112","earlier":1,"earlierRoot":"8b211286cae705c493b5d78f091a18196d8a16fd81244cd0e9330e808f90b4d7","madeMs":1795977628544,"program":"0.2.0","plan":"4534f3026e0ab67651263276183f6dbdeeba9866d677a8337f1f5b52269bb0fc","configuration":"41c938c257af0983e9b6fdf8cb926836afcd06e819323580cd182a2882699af8","base":"39c8e613566a1b780f53fa79ec6985d7e10879a5ad8263f08a768a16850c2c64","updates":3,"updatesRoot":"83634a85a2d79e436b7a0296abdf96fe8c566c4a3a5a6b96e920abc690d36e9d","hasReceipts":false,"privacy":null}}',X'',NULL);
INSERT INTO "record" VALUES(1,2,X'493790C584D14368F2398B78DE199E6A5FB807CDAA2AD9E6AFAD737D88107BC4','{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"digits-20261129T184028-3c87/2","digest":{"rivuletModel":"61ad4815b91a2150cb9063d6cb9a66eec4a0a9d2b60ac41cf2b600a0de77b455"}}],"predicateType":"urn:rivulet:version:1","predicate":{"run":"digits-20261129T184028-3c87","version":2,"previous":"8b1132c6e67083faef347e145af0b652c987578d3665b1f0d97dc4255f08aef8","earlier":2,"earlierRoot":"771b901f8cdb28b51bd7536824e4defe18c1a2a53c480b447e42774fcb740fd3","madeMs":1795977628545,"program":"0.2.0","plan":"4534f3026e0ab67651263276183f6dbdeeba9866d677a8337f1f5b52269bb0fc","configuration":"41c938c257af0983e9b6fdf8cb926836afcd06e819323580cd182a2882699af8","base":"5e9edddef4d00a50db269aa0495e81c1f4216e95e03df054cf7d02dd464b5d3e","updates":3,"updatesRoot":"1965e21fa23734c9bdeced3fdc66458fb32c5d32280f0a6a3a16e387c4450d57","hasReceipts":false,"privacy":null}}',X'',NULL);
CREATE TABLE run (
  run INTEGER PRIMARY KEY,
  run_id TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  status INTEGER NOT NULL,
  reason TEXT,
  config TEXT NOT NULL,
  plan_digest BLOB NOT NULL,
  seed INTEGER NOT NULL,
  version TEXT NOT NULL,
  models TEXT NOT NULL,
  created INTEGER NOT NULL,
  started INTEGER,
  finished INTEGER
) STRICT;
INSERT INTO "run" VALUES(1,'digits-20261129T184028-3c87','digits',1,NULL,'[run]
name = "digits"
rounds = 2
patience = 0
seed = 7
keep_models = "last"
kernels = "native"
cache_megabytes = 1024

[model]
preset = "logistic_regression"
graph = ""
onnx = ""
arrays = ""
weights = ""
metrics = []
layers = []
classes = 0
objective = "sparse_softmax_cross_entropy"
class_weights = []
label_smoothing = 0.0
ignore_label = []
freeze = []
personal = []

[model.input]
shape = []

[model.lora]
targets = []

[data]
train = "/tmp/tmpls2fioga/data/train.tfrecord"
test = "/tmp/tmpls2fioga/data/test.tfrecord"
tests = []
validation = ""
validation_fraction = 0.0
name = "train"
input_feature = ""
label_feature = "label"

[data.partition]
kind = "iid"
clients = 4
sizes = "even"
tags = []

[data.synth]
kind = "digits"
writers = 6
test_writers = 2
examples_per_writer = 4
seed = 3

[client]
epochs = 1
frozen = []
batch_size = 4
shuffle = true
input_graph = ""
precision = "float32"

[client.optimizer]
kind = "sgd"
learning_rate = 0.1
weight_decay = 0.0
clip_norm = 0.0
clip_value = 0.0

[client.loss_scale]
kind = "none"

[client.schedule]
kind = "constant"
warmup = 0

[algorithm]
name = "fedavg"

[server]
clients_per_round = 3
over_selection = 1.0
in_flight = 0
max_staleness = 10
staleness_exponent = 0.5
min_clients = 0
min_reports = 0
deadline = 600.0
lease = 60.0
presence = 60.0
max_attempts = 0
learning_rate = 1.0
download = "f32"
average = 0.0
weights = "examples"
max_weight = 65536
value_bits = 10
sum_bits = 64
staging_megabytes = 64
partial = "memory"
checkpoint_reports = false

[server.schedule]
kind = "constant"
warmup = 0

[server.fine_tune]
data = ""

[selection]
name = "uniform"
tags = []
min_examples = 0
trace = ""

[privacy]
unit = "client"
clip = 0.0
secure = "none"

[update]
codec = "f32"

[evaluation]
every = 1
batch_size = 100
federated_every = 0
',X'4534F3026E0AB67651263276183F6DBDEEBA9866D677A8337F1F5B52269BB0FC',7,'0.2.0','runs.sqlite.models/digits-20261129T184028-3c87',1795977628457,1795977628457,1795977628545);
CREATE TABLE run_key (
  run INTEGER NOT NULL REFERENCES run (run),
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (run, key)
) STRICT, WITHOUT ROWID;
INSERT INTO "run_key" VALUES(1,'algorithm.name','"fedavg"');
INSERT INTO "run_key" VALUES(1,'client.batch_size','4');
INSERT INTO "run_key" VALUES(1,'client.epochs','1');
INSERT INTO "run_key" VALUES(1,'client.frozen','[]');
INSERT INTO "run_key" VALUES(1,'client.input_graph','""');
INSERT INTO "run_key" VALUES(1,'client.loss_scale.kind','"none"');
INSERT INTO "run_key" VALUES(1,'client.optimizer.clip_norm','0.0');
INSERT INTO "run_key" VALUES(1,'client.optimizer.clip_value','0.0');
INSERT INTO "run_key" VALUES(1,'client.optimizer.kind','"sgd"');
INSERT INTO "run_key" VALUES(1,'client.optimizer.learning_rate','0.1');
INSERT INTO "run_key" VALUES(1,'client.optimizer.weight_decay','0.0');
INSERT INTO "run_key" VALUES(1,'client.precision','"float32"');
INSERT INTO "run_key" VALUES(1,'client.schedule.kind','"constant"');
INSERT INTO "run_key" VALUES(1,'client.schedule.warmup','0');
INSERT INTO "run_key" VALUES(1,'client.shuffle','true');
INSERT INTO "run_key" VALUES(1,'data.input_feature','""');
INSERT INTO "run_key" VALUES(1,'data.label_feature','"label"');
INSERT INTO "run_key" VALUES(1,'data.name','"train"');
INSERT INTO "run_key" VALUES(1,'data.partition.clients','4');
INSERT INTO "run_key" VALUES(1,'data.partition.kind','"iid"');
INSERT INTO "run_key" VALUES(1,'data.partition.sizes','"even"');
INSERT INTO "run_key" VALUES(1,'data.partition.tags','[]');
INSERT INTO "run_key" VALUES(1,'data.synth.examples_per_writer','4');
INSERT INTO "run_key" VALUES(1,'data.synth.kind','"digits"');
INSERT INTO "run_key" VALUES(1,'data.synth.seed','3');
INSERT INTO "run_key" VALUES(1,'data.synth.test_writers','2');
INSERT INTO "run_key" VALUES(1,'data.synth.writers','6');
INSERT INTO "run_key" VALUES(1,'data.test','"/tmp/tmpls2fioga/data/test.tfrecord"');
INSERT INTO "run_key" VALUES(1,'data.tests','[]');
INSERT INTO "run_key" VALUES(1,'data.train','"/tmp/tmpls2fioga/data/train.tfrecord"');
INSERT INTO "run_key" VALUES(1,'data.validation','""');
INSERT INTO "run_key" VALUES(1,'data.validation_fraction','0.0');
INSERT INTO "run_key" VALUES(1,'evaluation.batch_size','100');
INSERT INTO "run_key" VALUES(1,'evaluation.every','1');
INSERT INTO "run_key" VALUES(1,'evaluation.federated_every','0');
INSERT INTO "run_key" VALUES(1,'model.arrays','""');
INSERT INTO "run_key" VALUES(1,'model.class_weights','[]');
INSERT INTO "run_key" VALUES(1,'model.classes','0');
INSERT INTO "run_key" VALUES(1,'model.freeze','[]');
INSERT INTO "run_key" VALUES(1,'model.graph','""');
INSERT INTO "run_key" VALUES(1,'model.ignore_label','[]');
INSERT INTO "run_key" VALUES(1,'model.input.shape','[]');
INSERT INTO "run_key" VALUES(1,'model.label_smoothing','0.0');
INSERT INTO "run_key" VALUES(1,'model.layers','[]');
INSERT INTO "run_key" VALUES(1,'model.lora.targets','[]');
INSERT INTO "run_key" VALUES(1,'model.metrics','[]');
INSERT INTO "run_key" VALUES(1,'model.objective','"sparse_softmax_cross_entropy"');
INSERT INTO "run_key" VALUES(1,'model.onnx','""');
INSERT INTO "run_key" VALUES(1,'model.personal','[]');
INSERT INTO "run_key" VALUES(1,'model.preset','"logistic_regression"');
INSERT INTO "run_key" VALUES(1,'model.weights','""');
INSERT INTO "run_key" VALUES(1,'privacy.clip','0.0');
INSERT INTO "run_key" VALUES(1,'privacy.secure','"none"');
INSERT INTO "run_key" VALUES(1,'privacy.unit','"client"');
INSERT INTO "run_key" VALUES(1,'run.cache_megabytes','1024');
INSERT INTO "run_key" VALUES(1,'run.keep_models','"last"');
INSERT INTO "run_key" VALUES(1,'run.kernels','"native"');
INSERT INTO "run_key" VALUES(1,'run.name','"digits"');
INSERT INTO "run_key" VALUES(1,'run.patience','0');
INSERT INTO "run_key" VALUES(1,'run.rounds','2');
INSERT INTO "run_key" VALUES(1,'run.seed','7');
INSERT INTO "run_key" VALUES(1,'selection.min_examples','0');
INSERT INTO "run_key" VALUES(1,'selection.name','"uniform"');
INSERT INTO "run_key" VALUES(1,'selection.tags','[]');
INSERT INTO "run_key" VALUES(1,'selection.trace','""');
INSERT INTO "run_key" VALUES(1,'server.average','0.0');
INSERT INTO "run_key" VALUES(1,'server.checkpoint_reports','false');
INSERT INTO "run_key" VALUES(1,'server.clients_per_round','3');
INSERT INTO "run_key" VALUES(1,'server.deadline','600.0');
INSERT INTO "run_key" VALUES(1,'server.download','"f32"');
INSERT INTO "run_key" VALUES(1,'server.fine_tune.data','""');
INSERT INTO "run_key" VALUES(1,'server.in_flight','0');
INSERT INTO "run_key" VALUES(1,'server.learning_rate','1.0');
INSERT INTO "run_key" VALUES(1,'server.lease','60.0');
INSERT INTO "run_key" VALUES(1,'server.max_attempts','0');
INSERT INTO "run_key" VALUES(1,'server.max_staleness','10');
INSERT INTO "run_key" VALUES(1,'server.max_weight','65536');
INSERT INTO "run_key" VALUES(1,'server.min_clients','0');
INSERT INTO "run_key" VALUES(1,'server.min_reports','0');
INSERT INTO "run_key" VALUES(1,'server.over_selection','1.0');
INSERT INTO "run_key" VALUES(1,'server.partial','"memory"');
INSERT INTO "run_key" VALUES(1,'server.presence','60.0');
INSERT INTO "run_key" VALUES(1,'server.schedule.kind','"constant"');
INSERT INTO "run_key" VALUES(1,'server.schedule.warmup','0');
INSERT INTO "run_key" VALUES(1,'server.staging_megabytes','64');
INSERT INTO "run_key" VALUES(1,'server.staleness_exponent','0.5');
INSERT INTO "run_key" VALUES(1,'server.sum_bits','64');
INSERT INTO "run_key" VALUES(1,'server.value_bits','10');
INSERT INTO "run_key" VALUES(1,'server.weights','"examples"');
INSERT INTO "run_key" VALUES(1,'update.codec','"f32"');
CREATE TABLE tag (
  run INTEGER NOT NULL REFERENCES run (run),
  tag TEXT NOT NULL,
  PRIMARY KEY (run, tag)
) STRICT, WITHOUT ROWID;
CREATE TABLE task (
  task INTEGER PRIMARY KEY,
  attempt_key INTEGER NOT NULL REFERENCES attempt (attempt_key),
  client INTEGER NOT NULL REFERENCES client (client),
  ordinal INTEGER,
  status INTEGER NOT NULL,
  base_round INTEGER NOT NULL,
  into_round INTEGER,
  parent INTEGER REFERENCES client (client),
  examples INTEGER,
  steps INTEGER,
  train_loss REAL,
  update_norm REAL,
  update_digest BLOB,
  weight INTEGER,
  bytes_down INTEGER NOT NULL,
  bytes_up INTEGER NOT NULL,
  wait_seconds REAL,
  train_seconds REAL,
  upload_seconds REAL,
  error TEXT,
  task_id TEXT,
  UNIQUE (attempt_key, client, ordinal)
) STRICT;
INSERT INTO "task" VALUES(1,1,1,0,0,0,NULL,5,6,2,2.24300225575765,8.1856394669673981923e-01,NULL,NULL,0,0,0.0,0.000800924,NULL,NULL,NULL);
INSERT INTO "task" VALUES(2,1,2,0,0,0,NULL,NULL,6,2,2.23859731356302882332e+00,5.87831043416825238523e-01,NULL,NULL,0,0,0.001,3.0367e-05,NULL,NULL,NULL);
INSERT INTO "task" VALUES(3,1,3,0,0,0,NULL,NULL,6,2,2.06625235080719,5.57901018135618431692e-01,NULL,NULL,0,0,0.0,0.011232572,NULL,NULL,NULL);
INSERT INTO "task" VALUES(4,2,1,0,0,1,NULL,NULL,6,2,1.2805405457814533765e+00,7.00366999570414150433e-01,NULL,NULL,0,0,0.001,4.1717e-05,NULL,NULL,NULL);
INSERT INTO "task" VALUES(5,2,3,0,0,1,NULL,NULL,6,2,1.87311808268229174068e+00,4.71216759068937729448e-01,NULL,NULL,0,0,0.001,3.9995e-05,NULL,NULL,NULL);
INSERT INTO "task" VALUES(6,2,4,0,0,1,NULL,NULL,6,2,2.44787279764811183113e+00,7.70632802131608118934e-01,NULL,NULL,0,0,0.0,5.8399e-05,NULL,NULL,NULL);
CREATE UNIQUE INDEX task_by_id ON task (task_id) WHERE task_id IS NOT NULL;
CREATE UNIQUE INDEX metric_key ON metric (run, scope, name, round, coalesce(client, 0));
CREATE INDEX note_by_run ON note (run, at);
CREATE INDEX event_by_run ON event (run, at);
CREATE INDEX pointer_by_name ON pointer (name, label);
CREATE VIEW runs AS
SELECT run_id, name, CASE status WHEN 0 THEN 'running' WHEN 1 THEN 'finished' WHEN 2 THEN 'interrupted' WHEN 3 THEN 'failed' END AS status, reason, config, nullif(lower(hex(plan_digest)), '') AS plan_digest, seed, version,
       strftime('%Y-%m-%dT%H:%M:%fZ', created / 1000.0, 'unixepoch') AS created_at, strftime('%Y-%m-%dT%H:%M:%fZ', started / 1000.0, 'unixepoch') AS started_at, strftime('%Y-%m-%dT%H:%M:%fZ', finished / 1000.0, 'unixepoch') AS finished_at, run AS rowid
FROM run;
CREATE VIEW run_keys AS
SELECT r.run_id, k.key, k.value
FROM run_key k JOIN run r ON r.run = k.run;
CREATE VIEW tags AS
SELECT r.run_id, t.tag
FROM tag t JOIN run r ON r.run = t.run;
CREATE VIEW notes AS
SELECT r.run_id, strftime('%Y-%m-%dT%H:%M:%fZ', n.at / 1000.0, 'unixepoch') AS at, n.text, n.rowid AS rowid
FROM note n JOIN run r ON r.run = n.run;
CREATE VIEW clients AS
SELECT client_id, fingerprint, CASE status WHEN 0 THEN 'active' WHEN 1 THEN 'banned' WHEN 2 THEN 'approved' WHEN 3 THEN 'removed' END AS status, strftime('%Y-%m-%dT%H:%M:%fZ', first_seen / 1000.0, 'unixepoch') AS first_seen_at, strftime('%Y-%m-%dT%H:%M:%fZ', last_seen / 1000.0, 'unixepoch') AS last_seen_at
FROM client WHERE first_seen IS NOT NULL OR status <> 0;
CREATE VIEW run_clients AS
SELECT r.run_id, c.client_id, m.from_round, m.from_attempt
FROM membership m JOIN run r ON r.run = m.run JOIN client c ON c.client = m.client;
CREATE VIEW rounds AS
SELECT r.run_id, a.round, a.attempt, CASE a.status WHEN 0 THEN 'committed' WHEN 1 THEN 'abandoned' WHEN 2 THEN 'failed' END AS status, a.reason, strftime('%Y-%m-%dT%H:%M:%fZ', a.started / 1000.0, 'unixepoch') AS started_at, strftime('%Y-%m-%dT%H:%M:%fZ', a.finished / 1000.0, 'unixepoch') AS finished_at,
       a.folded + a.refused + a.dropped + a.failed AS selected, a.folded + a.refused AS reported,
       a.folded, a.refused, a.dropped, a.failed, a.examples, a.train_loss, a.bytes_down, a.bytes_up, a.train_seconds, a.aggregate_seconds, a.evaluate_seconds, a.noise_multiplier, a.sampling_rate, a.delta, a.epsilon, a.participant_epsilon,
       CASE a.status WHEN 0 THEN
         (SELECT nullif(lower(hex(m.digest)), '') FROM model m WHERE m.run = a.run AND m.round = a.round) END AS model_digest
FROM attempt a JOIN run r ON r.run = a.run WHERE a.kind = 0;
CREATE VIEW client_rounds AS
SELECT coalesce(t.task_id, r.run_id || '-' || CASE a.kind WHEN 0 THEN 'r' WHEN 1 THEN 'e' END || a.round || '-a' || a.attempt || '-' || c.client_id || '-'
         || t.ordinal) AS task_id,
       r.run_id, a.round, a.attempt, c.client_id, CASE a.kind WHEN 0 THEN 'train' WHEN 1 THEN 'evaluate' END AS kind, CASE t.status WHEN 0 THEN 'folded' WHEN 1 THEN 'refused' WHEN 2 THEN 'dropped' WHEN 3 THEN 'failed' END AS status, t.base_round,
       CASE WHEN t.status = 0 AND a.kind = 0 THEN coalesce(t.into_round, a.round) END AS committed_round,
       CASE WHEN t.status = 0 AND a.kind = 0 THEN coalesce(t.into_round, a.round) - 1 - t.base_round END AS staleness,
       (SELECT p.client_id FROM client p WHERE p.client = t.parent) AS parent_id,
       t.examples, t.steps, t.train_loss, t.update_norm, nullif(lower(hex(t.update_digest)), '') AS update_digest, CASE t.status WHEN 0 THEN coalesce(t.weight, t.examples) ELSE t.weight END AS weight, t.bytes_down, t.bytes_up, t.wait_seconds, t.train_seconds, t.upload_seconds, t.error,
       t.task AS rowid
FROM task t JOIN attempt a ON a.attempt_key = t.attempt_key JOIN run r ON r.run = a.run
  JOIN client c ON c.client = t.client;
CREATE VIEW metrics AS
SELECT r.run_id, m.round, 'central' AS scope, NULL AS client_id, m.name, coalesce(m.value, CAST(m.right AS REAL) / m.total) AS value, m.right, m.total
FROM metric m JOIN run r ON r.run = m.run WHERE m.scope = 0
UNION ALL
SELECT r.run_id, m.round, 'federated' AS scope, NULL AS client_id, m.name, coalesce(m.value, CAST(m.right AS REAL) / m.total) AS value, m.right, m.total
FROM metric m JOIN run r ON r.run = m.run WHERE m.scope = 1
UNION ALL
SELECT r.run_id, m.round, 'client' AS scope, c.client_id AS client_id, m.name, coalesce(m.value, CAST(m.right AS REAL) / m.total) AS value, m.right, m.total
FROM metric m JOIN run r ON r.run = m.run JOIN client c ON c.client = m.client WHERE m.scope = 2
UNION ALL
SELECT r.run_id, a.round, 'federated', NULL, 'privacy/epsilon', a.epsilon, NULL, NULL
FROM attempt a JOIN run r ON r.run = a.run
WHERE a.kind = 0 AND a.status = 0 AND a.epsilon IS NOT NULL
UNION ALL
SELECT r.run_id, a.round, 'federated', NULL, 'privacy/participant_epsilon', a.participant_epsilon, NULL, NULL
FROM attempt a JOIN run r ON r.run = a.run
WHERE a.kind = 0 AND a.status = 0 AND a.participant_epsilon IS NOT NULL
UNION ALL
SELECT r.run_id, a.round, 'federated', NULL, 'train/loss', a.train_loss, NULL, NULL
FROM attempt a JOIN run r ON r.run = a.run
WHERE a.kind = 0 AND a.status = 0 AND a.train_loss IS NOT NULL
UNION ALL
SELECT r.run_id, coalesce(t.into_round, a.round), 'client', c.client_id, 'train/loss', t.train_loss, NULL, NULL
FROM task t JOIN attempt a ON a.attempt_key = t.attempt_key JOIN run r ON r.run = a.run
  JOIN client c ON c.client = t.client
WHERE t.status = 0 AND a.kind = 0 AND t.train_loss IS NOT NULL;
CREATE VIEW models AS
SELECT r.run_id, m.round, lower(hex(m.digest)) AS digest,
       CASE WHEN instr(m.file, '/') > 0 OR r.models = '' THEN m.file ELSE r.models || '/' || m.file END AS path,
       m.bytes, m.parameters
FROM model m JOIN run r ON r.run = m.run;
CREATE VIEW records AS
SELECT r.run_id, c.round, nullif(lower(hex(c.digest)), '') AS digest, c.record, nullif(lower(hex(c.signature)), '') AS signature, c.certificate
FROM record c JOIN run r ON r.run = c.run;
CREATE VIEW events AS
SELECT r.run_id, e.round, strftime('%Y-%m-%dT%H:%M:%fZ', e.at / 1000.0, 'unixepoch') AS at, CASE e.level WHEN 0 THEN 'info' WHEN 1 THEN 'warning' WHEN 2 THEN 'error' END AS level, e.source, e.message, e.event AS rowid
FROM event e LEFT JOIN run r ON r.run = e.run;
CREATE VIEW audit AS
SELECT strftime('%Y-%m-%dT%H:%M:%fZ', at / 1000.0, 'unixepoch') AS at, operator_id, serial, CASE action WHEN 0 THEN 'approve' WHEN 1 THEN 'ban' WHEN 2 THEN 'remove' WHEN 3 THEN 'submit' WHEN 4 THEN 'pause' WHEN 5 THEN 'resume' WHEN 6 THEN 'stop' WHEN 7 THEN 'abort' END AS action, run_id, client_id, detail,
       audit AS rowid
FROM audit_entry;
CREATE VIEW pointers AS
SELECT name, label, run_id, round, nullif(lower(hex(digest)), '') AS digest, version, share, strftime('%Y-%m-%dT%H:%M:%fZ', at / 1000.0, 'unixepoch') AS at, author, note,
       rolled_back, pointer AS rowid
FROM pointer;
CREATE VIEW round_summary AS
SELECT r.run_id, r.name, a.round, a.attempt AS attempts,
       a.folded + a.refused + a.dropped + a.failed AS selected, a.folded, a.refused, a.dropped, a.failed, a.examples, a.train_loss,
       (SELECT coalesce(m.value, CAST(m.right AS REAL) / m.total) FROM metric m WHERE m.run = a.run AND m.scope = 0 AND m.name = 'test/accuracy' AND m.round = a.round) AS test_accuracy,
       (SELECT coalesce(m.value, CAST(m.right AS REAL) / m.total) FROM metric m WHERE m.run = a.run AND m.scope = 0 AND m.name = 'test/loss' AND m.round = a.round) AS test_loss,
       a.bytes_down, a.bytes_up, a.train_seconds, a.aggregate_seconds, a.evaluate_seconds, a.noise_multiplier, a.sampling_rate, a.delta, a.epsilon, a.participant_epsilon,
       (SELECT nullif(lower(hex(m.digest)), '') FROM model m WHERE m.run = a.run AND m.round = a.round) AS model_digest
FROM attempt a JOIN run r ON r.run = a.run
WHERE a.kind = 0 AND a.status = 0
ORDER BY r.run_id, a.round;
CREATE VIEW client_reliability AS
SELECT r.run_id, c.client_id, m.tasks, m.folded, m.refused, m.dropped, m.failed,
       CAST(m.folded AS REAL) / m.tasks AS reliability, m.examples,
       m.train_seconds / nullif(m.timed, 0) AS mean_train_seconds, strftime('%Y-%m-%dT%H:%M:%fZ', c.last_seen / 1000.0, 'unixepoch') AS last_seen_at
FROM membership m JOIN run r ON r.run = m.run JOIN client c ON c.client = m.client
WHERE m.tasks > 0
ORDER BY r.run_id, c.client_id;
CREATE VIEW run_leaderboard AS
WITH accuracy AS (
  SELECT m.run, m.round, coalesce(m.value, CAST(m.right AS REAL) / m.total) AS value,
         row_number() OVER (PARTITION BY m.run ORDER BY coalesce(m.value, CAST(m.right AS REAL) / m.total) DESC, m.round) AS best,
         row_number() OVER (PARTITION BY m.run ORDER BY m.round DESC) AS latest
  FROM run j JOIN metric m ON m.run = j.run AND m.scope = 0 AND m.name = CASE WHEN EXISTS (
    SELECT 1 FROM metric v WHERE v.run = j.run AND v.scope = 0 AND v.name = 'validation/accuracy')
    THEN 'validation/accuracy' ELSE 'test/accuracy' END)
SELECT r.run_id, r.name, CASE r.status WHEN 0 THEN 'running' WHEN 1 THEN 'finished' WHEN 2 THEN 'interrupted' WHEN 3 THEN 'failed' END AS status, r.seed,
       (SELECT count(*) FROM attempt a WHERE a.run = r.run AND a.kind = 0 AND a.status = 0) AS rounds,
       b.value AS best_accuracy, b.round AS best_round, l.value AS last_accuracy, l.round AS last_round,
       (SELECT sum(a.train_seconds + a.aggregate_seconds + a.evaluate_seconds)
        FROM attempt a WHERE a.run = r.run AND a.kind = 0) AS seconds,
       strftime('%Y-%m-%dT%H:%M:%fZ', r.created / 1000.0, 'unixepoch') AS created_at
FROM run r
LEFT JOIN accuracy b ON b.run = r.run AND b.best = 1
LEFT JOIN accuracy l ON l.run = r.run AND l.latest = 1
ORDER BY best_accuracy DESC, best_round;
COMMIT;
