PRAGMA application_id = 1381387348;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE client_rounds (
  task_id         TEXT PRIMARY KEY NOT NULL,
  run_id          TEXT NOT NULL,
  round           INTEGER NOT NULL,
  attempt         INTEGER NOT NULL,
  client_id       TEXT NOT NULL REFERENCES clients (client_id),
  kind            TEXT NOT NULL CHECK (kind IN ('train', 'evaluate')),
  status          TEXT NOT NULL CHECK (status IN ('folded', 'refused', 'dropped', 'failed')),
  base_round      INTEGER NOT NULL,
  committed_round INTEGER,
  staleness       INTEGER,
  parent_id       TEXT,
  examples        INTEGER,
  steps           INTEGER,
  train_loss      REAL,
  update_norm     REAL,
  update_digest   TEXT,
  weight          INTEGER,
  bytes_down      INTEGER NOT NULL,
  bytes_up        INTEGER NOT NULL,
  wait_seconds    REAL,
  train_seconds   REAL,
  upload_seconds  REAL,
  error           TEXT,
  FOREIGN KEY (run_id, round, attempt) REFERENCES rounds (run_id, round, attempt)
) STRICT;
INSERT INTO "client_rounds" VALUES('text-20261122T051212-ea33-r1-a1-Aase Ærø-0','text-20261122T051212-ea33',1,1,'Aase Ærø','train','folded',0,1,0,'tier/east',26,7,3.30090431066659784065e+00,1.10427013763021619752e+00,'f14029a0b8e1a8d380bd7ade43dba2c8466ce4cfa2132160c27c55db379ba724',27,0,444057,0.555,0.352213683,0.001,NULL);
INSERT INTO "client_rounds" VALUES('text-20261122T051212-ea33-r1-a1-FIRST LORD-0','text-20261122T051212-ea33',1,1,'FIRST LORD','train','folded',0,1,0,NULL,26,7,3.39602767504178570945e+00,1.08060022558396173764e+00,'a6ef36aabf017c1183ad54bde52f6e4a3c73892b8e653f54961337011ae2fefa',26,447680,444057,0.008,0.509968937,0.001,NULL);
INSERT INTO "client_rounds" VALUES('text-20261122T051212-ea33-r1-a1-x-r1-a1-y-0-0','text-20261122T051212-ea33',1,1,'x-r1-a1-y-0','train','folded',0,1,0,NULL,26,7,3.25450954070458031708e+00,1.18504183671680318745e+00,'9fa7655a55d54ffa5475a8925fb6a45d93617d0dacac9cafc38ed43984fe3ec4',26,0,444058,0.499,0.324069903,0.001,NULL);
INSERT INTO "client_rounds" VALUES('text-20261122T051212-ea33-r1-a1-王子-0','text-20261122T051212-ea33',1,1,'王子','train','folded',0,1,0,NULL,26,7,3.45180370257450963578e+00,1.07588822387935922897e+00,'ac54f1813265d932c60aa3b510a8543b8da35b44dc7abdabd76784fa37afe8ba',26,40234,444053,0.0,0.367061509,0.001,NULL);
INSERT INTO "client_rounds" VALUES('text-20261122T051212-ea33-r2-a1-Aase Ærø-0','text-20261122T051212-ea33',2,1,'Aase Ærø','train','folded',1,2,0,NULL,26,7,2.55198665765615606559e+00,6.23754545836943230519e-01,'a321963c8747e904e2a2d9e537d945879d6d1fe5ac37d6dd2f620ce78844ab23',26,447680,444057,0.0,0.295927955,0.021,NULL);
INSERT INTO "client_rounds" VALUES('text-20261122T051212-ea33-r2-a1-FIRST LORD-0','text-20261122T051212-ea33',2,1,'FIRST LORD','train','folded',1,2,0,NULL,26,7,2.67133894333472632354e+00,6.10024457790097396348e-01,'4771e207ff2620ed6e3b0f28ec0b6214136e0fe19a511e88eed6e7a267da3597',26,0,444057,0.32,0.352220653,0.007,NULL);
INSERT INTO "client_rounds" VALUES('text-20261122T051212-ea33-r2-a1-x-r1-a1-y-0-0','text-20261122T051212-ea33',2,1,'x-r1-a1-y-0','train','folded',1,2,0,NULL,26,7,2.53264982883746814223e+00,7.05988740181862861611e-01,'a0b96f40e263f4fcc549cc16ddcf2ac04aff49479f62ff60b0f941d9822d448e',26,0,444058,0.0,0.307625271,0.017,NULL);
INSERT INTO "client_rounds" VALUES('text-20261122T051212-ea33-r2-a1-王子-0','text-20261122T051212-ea33',2,1,'王子','train','folded',1,2,0,NULL,26,7,2.76929063063401459388e+00,6.34954756406579501337e-01,'bd24f62d11faa5719c5a421af4bf92570c53acce42892a46c732613cb9e5be9d',26,0,444053,0.34,0.31395644,0.001,NULL);
INSERT INTO "client_rounds" VALUES('digits-20261122T051214-073b-r1-a1-client-00000-0','digits-20261122T051214-073b',1,1,'client-00000','train','folded',0,1,0,NULL,5,1,2.24589109420776367187e+00,8.22673482784683862689e+00,'39313120110f0fc63c778174fa94c5d0808e211e170f509efbf24e40122a7c83',5,0,31557,0.008,3.3562e-05,0.0,NULL);
INSERT INTO "client_rounds" VALUES('digits-20261122T051214-073b-r1-a1-client-00005-0','digits-20261122T051214-073b',1,1,'client-00005','train','folded',0,1,0,NULL,5,1,2.35826921463012695312e+00,7.03998477097656483181e+00,'d79321f3f979c0c1a1b45bcc63fb0c2a080ea397408316c3ba3e3d8b90e8647c',5,35989,31557,0.0,0.001282709,0.0,NULL);
INSERT INTO "client_rounds" VALUES('digits-20261122T051214-073b-r1-a1-client-00006-0','digits-20261122T051214-073b',1,1,'client-00006','train','folded',0,1,0,NULL,5,1,2.70145702362060546875e+00,9.95802727652477237541e+00,'b715e97233704fcd55d6e66d88ded7baa97c90b6943a01dcba4e3f52822d197e',5,0,31557,0.007,9.7888e-05,0.0,NULL);
INSERT INTO "client_rounds" VALUES('digits-20261122T051214-073b-r1-a1-client-00009-0','digits-20261122T051214-073b',1,1,'client-00009','train','failed',0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,NULL,'its disk is full');
INSERT INTO "client_rounds" VALUES('digits-20261122T051214-073b-r1-a1-client-00015-0','digits-20261122T051214-073b',1,1,'client-00015','train','folded',0,1,0,NULL,5,1,2.46640062332153320312e+00,8.21185488186580414549e+00,'8578670b758257717b62ef73e80787ac0e2af096514ba51d7f9fc639cdf4600c',5,0,31557,0.003,4.0587e-05,0.0,NULL);
INSERT INTO "client_rounds" VALUES('digits-20261122T051214-073b-r2-a1-client-00002-0','digits-20261122T051214-073b',2,1,'client-00002','train','folded',1,2,0,NULL,5,1,4.85046863555908203125e+00,1.13920205310421795985e+01,'b8d63c2745eb8015fdaa54af240329d0cad2f1fda865a4bb62c03e831a8c002e',5,31848,31557,0.0,8.3066e-05,0.0,NULL);
INSERT INTO "client_rounds" VALUES('digits-20261122T051214-073b-r2-a1-client-00011-0','digits-20261122T051214-073b',2,1,'client-00011','train','refused',1,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'d650203ddcc5d35376ee9e1d0e2d383af22a234733aee11c2bd33b5e2b708a96',NULL,0,31557,0.003,NULL,0.0,'the update of task ''digits-20261122T051214-073b-r2-a1-client-00011-0'' has -1.4158213 at element 7840 of its delta, beyond ±2^0; raise server.value_bits if that is no error');
INSERT INTO "client_rounds" VALUES('digits-20261122T051214-073b-r2-a1-client-00012-0','digits-20261122T051214-073b',2,1,'client-00012','train','refused',1,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'9d1ddabc6467ad76e439c9f384509dbcf2e008039431aa6e6bf95db09dce3f16',NULL,0,31557,0.0,NULL,0.0,'the update of task ''digits-20261122T051214-073b-r2-a1-client-00012-0'' has -1.1100069 at element 1230 of its delta, beyond ±2^0; raise server.value_bits if that is no error');
INSERT INTO "client_rounds" VALUES('digits-20261122T051214-073b-r2-a1-client-00013-0','digits-20261122T051214-073b',2,1,'client-00013','train','folded',1,2,0,NULL,5,1,4.60835075378418,1.02824274924090275362e+01,'3c85ddf3800706f0fa6e3af1fb40d0cd2a9c15738d1a21f2b41ff91454576299',5,0,31557,0.001,3.3649e-05,0.0,NULL);
INSERT INTO "client_rounds" VALUES('digits-20261122T051214-073b-r2-a1-client-00014-0','digits-20261122T051214-073b',2,1,'client-00014','train','folded',1,2,0,NULL,5,1,6.28206491470336914062e+00,1.19478048923269692944e+01,'e6f985f90efe956bbc8ed2aef854d44b9b23f7777f1f16eb1322a7f6e61fe70e',5,0,31557,0.0,4.0936e-05,0.0,NULL);
INSERT INTO "client_rounds" VALUES('digits-20261122T051214-6060-r1-a1-client-00000-0','digits-20261122T051214-6060',1,1,'client-00000','train','refused',0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'5570d9478a3964ec0120318a5dbf482699450072b882fbedb25e51aa3f8afd6a',NULL,0,31557,0.013,NULL,0.0,'the update of task ''digits-20261122T051214-6060-r1-a1-client-00000-0'' has 2.4661453 at element 441 of its delta, beyond ±2^0; raise server.value_bits if that is no error');
INSERT INTO "client_rounds" VALUES('digits-20261122T051214-6060-r1-a1-client-00005-0','digits-20261122T051214-6060',1,1,'client-00005','train','refused',0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'7d85ad23068ec39bd04c6c1b63069be36e7d75aae62663e788eb6df2de5d0a1d',NULL,35989,31557,0.0,NULL,0.0,'the update of task ''digits-20261122T051214-6060-r1-a1-client-00005-0'' has 2.0030901 at element 365 of its delta, beyond ±2^0; raise server.value_bits if that is no error');
INSERT INTO "client_rounds" VALUES('digits-20261122T051214-6060-r1-a1-client-00006-0','digits-20261122T051214-6060',1,1,'client-00006','train','refused',0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'39738317207821ba6016dee8327c2ba94164be4ed8b5fcc1395dde7416a33007',NULL,0,31557,0.012,NULL,0.0,'the update of task ''digits-20261122T051214-6060-r1-a1-client-00006-0'' has 1.6587017 at element 118 of its delta, beyond ±2^0; raise server.value_bits if that is no error');
INSERT INTO "client_rounds" VALUES('digits-20261122T051214-6060-r1-a1-client-00009-0','digits-20261122T051214-6060',1,1,'client-00009','train','refused',0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'17f92425c62fd5a5dcd09cd2d43be04b45d7a295a6523fdeaa55822f4b3513da',NULL,0,31557,0.013,NULL,0.0,'the update of task ''digits-20261122T051214-6060-r1-a1-client-00009-0'' has 1.1351861 at element 133 of its delta, beyond ±2^0; raise server.value_bits if that is no error');
INSERT INTO "client_rounds" VALUES('digits-20261122T051214-6060-r1-a1-client-00015-0','digits-20261122T051214-6060',1,1,'client-00015','train','refused',0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'9b8eceb737d30fc488dc3f48301c4f849efbcab197e06e0e46237ef11000c3e0',NULL,0,31557,0.003,NULL,0.0,'the update of task ''digits-20261122T051214-6060-r1-a1-client-00015-0'' has 1.2341243 at element 427 of its delta, beyond ±2^0; raise server.value_bits if that is no error');
INSERT INTO "client_rounds" VALUES('digits-20261122T051214-6060-r1-a2-client-00011-0','digits-20261122T051214-6060',1,2,'client-00011','train','refused',0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'344bb5648d47ed1c6a905422c1bffc0d2c9f37567738f0051aafa59efa6a305f',NULL,0,31557,0.004,NULL,0.001,'the update of task ''digits-20261122T051214-6060-r1-a2-client-00011-0'' has 1.3327385 at element 409 of its delta, beyond ±2^0; raise server.value_bits if that is no error');
INSERT INTO "client_rounds" VALUES('digits-20261122T051214-6060-r1-a2-client-00014-0','digits-20261122T051214-6060',1,2,'client-00014','train','refused',0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'3154187f9403d9441ce77c69ce18ca69d53f5d62c9d1bf21c034920763ff8b14',NULL,0,31557,0.005,NULL,0.0,'the update of task ''digits-20261122T051214-6060-r1-a2-client-00014-0'' has 1.6842976 at element 96 of its delta, beyond ±2^0; raise server.value_bits if that is no error');
INSERT INTO "client_rounds" VALUES('digits-20261122T051214-6060-r1-a2-client-00016-0','digits-20261122T051214-6060',1,2,'client-00016','train','refused',0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'d68c76f4292fdbef6b02836a06f9ebdab3ebee873d49f217bb66d0a330b7fa96',NULL,0,31557,0.005,NULL,0.0,'the update of task ''digits-20261122T051214-6060-r1-a2-client-00016-0'' has 2.0907583 at element 175 of its delta, beyond ±2^0; raise server.value_bits if that is no error');
INSERT INTO "client_rounds" VALUES('digits-20261122T051214-6060-r1-a2-client-00017-0','digits-20261122T051214-6060',1,2,'client-00017','train','refused',0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'912cd289d7ee4d5ab322f2673162aa41cb307df79fe79a85932bb257cde22749',NULL,0,31557,0.001,NULL,0.0,'the update of task ''digits-20261122T051214-6060-r1-a2-client-00017-0'' has 1.0311842 at element 207 of its delta, beyond ±2^0; raise server.value_bits if that is no error');
INSERT INTO "client_rounds" VALUES('digits-20261122T051214-6060-r1-a2-client-00018-0','digits-20261122T051214-6060',1,2,'client-00018','train','dropped',0,NULL,NULL,NULL,8,2,2.5,1.25,'e42ba422b9c418f0688109169b708c17b1e25e9d6af61bf09772bfd55f36fd2e',8,0,31557,0.005,NULL,0.0,'the round was abandoned');
INSERT INTO "client_rounds" VALUES('digits-20261122T051215-0a8f-r1-a1-client-00000-0','digits-20261122T051215-0a8f',1,1,'client-00000','train','folded',0,1,0,NULL,5,1,2.24589109420776367187e+00,3.29069397042118461094e-01,'029cbc619853d9ae713b3443bcdb45a7dc90e81aac5d54b74a049392a06a0d94',5,0,31557,0.008,3.5289e-05,0.0,NULL);
INSERT INTO "client_rounds" VALUES('digits-20261122T051215-0a8f-r1-a1-client-00005-0','digits-20261122T051215-0a8f',1,1,'client-00005','train','folded',0,1,0,NULL,5,1,2.35826921463012695312e+00,2.81599396691990855323e-01,'92a3ab708097013b10112c52f2864904f92d961197f1df3aff0e03cb773cfd8f',5,35991,31557,0.0,0.001316434,0.0,NULL);
INSERT INTO "client_rounds" VALUES('digits-20261122T051215-0a8f-r1-a1-client-00006-0','digits-20261122T051215-0a8f',1,1,'client-00006','train','folded',0,1,0,NULL,5,1,2.70145702362060546875e+00,3.98321092274526666887e-01,'ba836ea5a053fc1765a76493ded6d98ec1b81bde0919c2c8c9d1b3c5c1371dd4',5,0,31557,0.008,0.000106537,0.0,NULL);
INSERT INTO "client_rounds" VALUES('digits-20261122T051215-0a8f-r1-a1-client-00009-0','digits-20261122T051215-0a8f',1,1,'client-00009','train','folded',0,1,0,NULL,5,1,2.12888193130493164062e+00,4.08505558309470440114e-01,'0e285701aba532b24d259fdf2c225ca1012703b25d512dcd52701f056a9e8802',5,0,31557,0.008,3.011e-05,0.0,NULL);
INSERT INTO "client_rounds" VALUES('digits-20261122T051215-0a8f-r1-a1-client-00015-0','digits-20261122T051215-0a8f',1,1,'client-00015','train','folded',0,1,0,NULL,5,1,2.46640062332153320312e+00,3.28474206004043201012e-01,'794d48b04ff88eb76304714b9e7535c3387a5ef6f019905204ffe345ee6944ea',5,0,31557,0.003,4.01e-05,0.0,NULL);
INSERT INTO "client_rounds" VALUES('digits-20261122T051215-0a8f-r2-a1-client-00002-0','digits-20261122T051215-0a8f',2,1,'client-00002','train','folded',1,2,0,NULL,5,1,2.31712198257446289062e+00,3.38422020251255062373e-01,'f2a14d1859916ba16e2365d0fe309d7c7e7d60a5351dafaaba7754ab6fbbd339',5,0,31557,0.0,4.7976e-05,0.0,NULL);
INSERT INTO "client_rounds" VALUES('digits-20261122T051215-0a8f-r2-a1-client-00011-0','digits-20261122T051215-0a8f',2,1,'client-00011','train','folded',1,2,0,NULL,5,1,2.42318820953369140625e+00,3.37970632750596799986e-01,'6b804a5703ec7d15d992c28885322ed5c62750d067cf662511d2257026bd2bd6',5,0,31557,0.001,3.3347e-05,0.0,NULL);
INSERT INTO "client_rounds" VALUES('digits-20261122T051215-0a8f-r2-a1-client-00012-0','digits-20261122T051215-0a8f',2,1,'client-00012','train','folded',1,2,0,NULL,5,1,2.39689493179321289062e+00,4.02189359770479148981e-01,'c7796a8710957ead46e516e258a4830d455ad30b3618e1b1baf8d131a6d51e07',5,0,31557,0.001,3.6235e-05,0.0,NULL);
INSERT INTO "client_rounds" VALUES('digits-20261122T051215-0a8f-r2-a1-client-00013-0','digits-20261122T051215-0a8f',2,1,'client-00013','train','folded',1,2,0,NULL,5,1,2.30336141586303710937e+00,3.8373211725943634498e-01,'e79a3a3434c577a7f40d6fbdac93e331b5d4d5f3302521c6d02db62f65233f81',5,0,31557,0.001,3.357e-05,0.0,NULL);
INSERT INTO "client_rounds" VALUES('digits-20261122T051215-0a8f-r2-a1-client-00014-0','digits-20261122T051215-0a8f',2,1,'client-00014','train','folded',1,2,0,NULL,5,1,2.17636036872863769531e+00,3.50383237653833723435e-01,'8f838c666b16407f588ebecee2dd32b88e36f435df73c6b9c83081754f66ebee',5,31848,31557,0.0,8.8242e-05,0.0,NULL);
INSERT INTO "client_rounds" VALUES('digits-20261122T051215-0a8f-r3-a1-client-00003-0','digits-20261122T051215-0a8f',3,1,'client-00003','train','folded',2,3,0,NULL,5,1,2.10751843452453613281e+00,3.42505234520355694716e-01,'cad4a347b16f819906ff665aeb1c70ffaa2b873e7b461bc5e047c8db387f5082',5,0,31557,0.002,3.617e-05,0.0,NULL);
INSERT INTO "client_rounds" VALUES('digits-20261122T051215-0a8f-r3-a1-client-00012-0','digits-20261122T051215-0a8f',3,1,'client-00012','train','folded',2,3,0,NULL,5,1,2.12636041641235351562e+00,3.82541247011281282386e-01,'c59b5c6415f709b206970b52ab143238003f52d39b4efa4fb6ad8e5690975a20',5,0,31557,0.0,4.6589e-05,0.0,NULL);
INSERT INTO "client_rounds" VALUES('digits-20261122T051215-0a8f-r3-a1-client-00013-0','digits-20261122T051215-0a8f',3,1,'client-00013','train','folded',2,3,0,NULL,5,1,1.9940592050552368164e+00,3.62874881557693151901e-01,'048a3c02aa47b5db281febb740f9b7808248065bccad1902789087f3bf64fefb',5,31848,31557,0.0,8.578e-05,0.0,NULL);
INSERT INTO "client_rounds" VALUES('digits-20261122T051215-0a8f-r3-a1-client-00014-0','digits-20261122T051215-0a8f',3,1,'client-00014','train','folded',2,3,0,NULL,5,1,1.87918138504028320312e+00,3.25561097802275156709e-01,'fae058a166b9212b016ceb70cd630a7976e11d67c1ee2e727c4125bb1f6b7ce6',5,0,31557,0.002,4.1651e-05,0.0,NULL);
INSERT INTO "client_rounds" VALUES('digits-20261122T051215-0a8f-r3-a1-client-00017-0','digits-20261122T051215-0a8f',3,1,'client-00017','train','folded',2,3,0,NULL,4,1,2.26116466522216796875e+00,4.0822614687612812645e-01,'8c8c0aaccfa242dc44b04caa56127be946d327e708c042655b46cb009687a80e',4,0,31557,0.0,0.000948331,0.001,NULL);
CREATE TABLE clients (
  client_id     TEXT PRIMARY KEY NOT NULL,
  fingerprint   TEXT,
  status        TEXT NOT NULL,
  first_seen_at TEXT NOT NULL,
  last_seen_at  TEXT NOT NULL
) STRICT;
INSERT INTO "clients" VALUES('Aase Ærø',NULL,'active','2026-11-22T05:12:12.397Z','2026-11-22T05:12:13.430Z');
INSERT INTO "clients" VALUES('FIRST LORD',NULL,'active','2026-11-22T05:12:12.397Z','2026-11-22T05:12:13.749Z');
INSERT INTO "clients" VALUES('x-r1-a1-y-0',NULL,'active','2026-11-22T05:12:12.397Z','2026-11-22T05:12:13.430Z');
INSERT INTO "clients" VALUES('王子',NULL,'active','2026-11-22T05:12:12.397Z','2026-11-22T05:12:13.769Z');
INSERT INTO "clients" VALUES('client-00000',NULL,'active','2026-11-22T05:12:14.497Z','2026-11-22T05:12:16.929Z');
INSERT INTO "clients" VALUES('client-00001',NULL,'active','2026-11-22T05:12:14.497Z','2026-11-22T05:12:16.790Z');
INSERT INTO "clients" VALUES('client-00002',NULL,'active','2026-11-22T05:12:14.497Z','2026-11-22T05:12:16.789Z');
INSERT INTO "clients" VALUES('client-00003','ab:cd','active','2026-11-22T05:12:14.497Z','2026-11-22T05:12:16.829Z');
INSERT INTO "clients" VALUES('client-00004',NULL,'active','2026-11-22T05:12:14.497Z','2026-11-22T05:12:16.886Z');
INSERT INTO "clients" VALUES('client-00005',NULL,'active','2026-11-22T05:12:14.497Z','2026-11-22T05:12:16.929Z');
INSERT INTO "clients" VALUES('client-00006',NULL,'active','2026-11-22T05:12:14.497Z','2026-11-22T05:12:16.506Z');
INSERT INTO "clients" VALUES('client-00007',NULL,'active','2026-11-22T05:12:14.497Z','2026-11-22T05:12:16.757Z');
INSERT INTO "clients" VALUES('client-00008',NULL,'active','2026-11-22T05:12:14.497Z','2026-11-22T05:12:16.930Z');
INSERT INTO "clients" VALUES('client-00009',NULL,'active','2026-11-22T05:12:14.497Z','2026-11-22T05:12:16.930Z');
INSERT INTO "clients" VALUES('client-00010',NULL,'active','2026-11-22T05:12:14.497Z','2026-11-22T05:12:16.629Z');
INSERT INTO "clients" VALUES('client-00011',NULL,'active','2026-11-22T05:12:14.497Z','2026-11-22T05:12:16.830Z');
INSERT INTO "clients" VALUES('client-00012',NULL,'active','2026-11-22T05:12:14.497Z','2026-11-22T05:12:16.566Z');
INSERT INTO "clients" VALUES('client-00013',NULL,'active','2026-11-22T05:12:14.497Z','2026-11-22T05:12:16.666Z');
INSERT INTO "clients" VALUES('client-00014',NULL,'active','2026-11-22T05:12:14.497Z','2026-11-22T05:12:16.601Z');
INSERT INTO "clients" VALUES('client-00015',NULL,'active','2026-11-22T05:12:14.497Z','2026-11-22T05:12:16.790Z');
INSERT INTO "clients" VALUES('client-00016',NULL,'active','2026-11-22T05:12:14.497Z','2026-11-22T05:12:16.666Z');
INSERT INTO "clients" VALUES('client-00017',NULL,'active','2026-11-22T05:12:14.497Z','2026-11-22T05:12:16.930Z');
INSERT INTO "clients" VALUES('client-00018',NULL,'active','2026-11-22T05:12:14.497Z','2026-11-22T05:12:16.886Z');
INSERT INTO "clients" VALUES('client-00019',NULL,'active','2026-11-22T05:12:14.497Z','2026-11-22T05:12:16.830Z');
CREATE TABLE events (
  run_id  TEXT REFERENCES runs (run_id),
  round   INTEGER,
  at      TEXT NOT NULL,
  level   TEXT NOT NULL CHECK (level IN ('info', 'warning', 'error')),
  source  TEXT NOT NULL,
  message TEXT NOT NULL
) STRICT;
INSERT INTO "events" VALUES('text-20261122T051212-ea33',NULL,'2026-11-22T05:12:12.305Z','info','run','started for 2 rounds');
INSERT INTO "events" VALUES('text-20261122T051212-ea33',NULL,'2026-11-22T05:12:12.305Z','info','aggregation','weighted_mean: sums in multiples of 2^-34, values up to 2^10, weights up to 65536, at most 4 updates a version');
INSERT INTO "events" VALUES('text-20261122T051212-ea33',2,'2026-11-22T05:12:14.189Z','info','run','finished after round 2');
INSERT INTO "events" VALUES('digits-20261122T051214-073b',NULL,'2026-11-22T05:12:14.415Z','info','run','started for 2 rounds');
INSERT INTO "events" VALUES('digits-20261122T051214-073b',NULL,'2026-11-22T05:12:14.415Z','info','aggregation','weighted_mean: sums in multiples of 2^-43, values up to 2^0, weights up to 65536, at most 5 updates a version');
INSERT INTO "events" VALUES('digits-20261122T051214-073b',1,'2026-11-22T05:12:14.514Z','warning','client','''client-00009'' refused: the update of task ''digits-20261122T051214-073b-r1-a1-client-00009-0'' has 1.0013806 at element 1773 of its delta, beyond ±2^0; raise server.value_bits if that is no error');
INSERT INTO "events" VALUES('digits-20261122T051214-073b',2,'2026-11-22T05:12:14.541Z','warning','client','''client-00011'' refused: the update of task ''digits-20261122T051214-073b-r2-a1-client-00011-0'' has -1.4158213 at element 7840 of its delta, beyond ±2^0; raise server.value_bits if that is no error');
INSERT INTO "events" VALUES('digits-20261122T051214-073b',2,'2026-11-22T05:12:14.541Z','warning','client','''client-00012'' refused: the update of task ''digits-20261122T051214-073b-r2-a1-client-00012-0'' has -1.1100069 at element 1230 of its delta, beyond ±2^0; raise server.value_bits if that is no error');
INSERT INTO "events" VALUES('digits-20261122T051214-073b',2,'2026-11-22T05:12:14.553Z','info','run','finished after round 2');
INSERT INTO "events" VALUES('digits-20261122T051214-6060',NULL,'2026-11-22T05:12:14.748Z','info','run','started for 3 rounds');
INSERT INTO "events" VALUES('digits-20261122T051214-6060',NULL,'2026-11-22T05:12:14.748Z','info','aggregation','weighted_mean: sums in multiples of 2^-43, values up to 2^0, weights up to 65536, at most 5 updates a version');
INSERT INTO "events" VALUES('digits-20261122T051214-6060',1,'2026-11-22T05:12:14.850Z','warning','client','''client-00000'' refused: the update of task ''digits-20261122T051214-6060-r1-a1-client-00000-0'' has 2.4661453 at element 441 of its delta, beyond ±2^0; raise server.value_bits if that is no error');
INSERT INTO "events" VALUES('digits-20261122T051214-6060',1,'2026-11-22T05:12:14.850Z','warning','client','''client-00005'' refused: the update of task ''digits-20261122T051214-6060-r1-a1-client-00005-0'' has 2.0030901 at element 365 of its delta, beyond ±2^0; raise server.value_bits if that is no error');
INSERT INTO "events" VALUES('digits-20261122T051214-6060',1,'2026-11-22T05:12:14.850Z','warning','client','''client-00006'' refused: the update of task ''digits-20261122T051214-6060-r1-a1-client-00006-0'' has 1.6587017 at element 118 of its delta, beyond ±2^0; raise server.value_bits if that is no error');
INSERT INTO "events" VALUES('digits-20261122T051214-6060',1,'2026-11-22T05:12:14.850Z','warning','client','''client-00009'' refused: the update of task ''digits-20261122T051214-6060-r1-a1-client-00009-0'' has 1.1351861 at element 133 of its delta, beyond ±2^0; raise server.value_bits if that is no error');
INSERT INTO "events" VALUES('digits-20261122T051214-6060',1,'2026-11-22T05:12:14.850Z','warning','client','''client-00015'' refused: the update of task ''digits-20261122T051214-6060-r1-a1-client-00015-0'' has 1.2341243 at element 427 of its delta, beyond ±2^0; raise server.value_bits if that is no error');
INSERT INTO "events" VALUES('digits-20261122T051214-6060',1,'2026-11-22T05:12:14.850Z','warning','round','attempt 1 abandoned: 0 of 5 updates that round 1 needs arrived (client ''client-00005'' refused: the update of task ''digits-20261122T051214-6060-r1-a1-client-00005-0'' has 2.0030901 at element 365 of its delta, beyond ±2^0; raise server.value_bits if that is no error; and 4 more)');
INSERT INTO "events" VALUES('digits-20261122T051214-6060',1,'2026-11-22T05:12:14.861Z','warning','client','''client-00011'' refused: the update of task ''digits-20261122T051214-6060-r1-a2-client-00011-0'' has 1.3327385 at element 409 of its delta, beyond ±2^0; raise server.value_bits if that is no error');
INSERT INTO "events" VALUES('digits-20261122T051214-6060',1,'2026-11-22T05:12:14.861Z','warning','client','''client-00014'' refused: the update of task ''digits-20261122T051214-6060-r1-a2-client-00014-0'' has 1.6842976 at element 96 of its delta, beyond ±2^0; raise server.value_bits if that is no error');
INSERT INTO "events" VALUES('digits-20261122T051214-6060',1,'2026-11-22T05:12:14.861Z','warning','client','''client-00016'' refused: the update of task ''digits-20261122T051214-6060-r1-a2-client-00016-0'' has 2.0907583 at element 175 of its delta, beyond ±2^0; raise server.value_bits if that is no error');
INSERT INTO "events" VALUES('digits-20261122T051214-6060',1,'2026-11-22T05:12:14.861Z','warning','client','''client-00017'' refused: the update of task ''digits-20261122T051214-6060-r1-a2-client-00017-0'' has 1.0311842 at element 207 of its delta, beyond ±2^0; raise server.value_bits if that is no error');
INSERT INTO "events" VALUES('digits-20261122T051214-6060',1,'2026-11-22T05:12:14.861Z','warning','client','''client-00018'' refused: the update of task ''digits-20261122T051214-6060-r1-a2-client-00018-0'' has 1.0733371 at element 107 of its delta, beyond ±2^0; raise server.value_bits if that is no error');
INSERT INTO "events" VALUES('digits-20261122T051214-6060',1,'2026-11-22T05:12:14.862Z','warning','round','attempt 2 abandoned: 0 of 5 updates that round 1 needs arrived (client ''client-00017'' refused: the update of task ''digits-20261122T051214-6060-r1-a2-client-00017-0'' has 1.0311842 at element 207 of its delta, beyond ±2^0; raise server.value_bits if that is no error; and 4 more)');
INSERT INTO "events" VALUES('digits-20261122T051214-6060',1,'2026-11-22T05:12:14.873Z','error','run','round 1 was given up after 2 attempts; in the last, 0 of 5 updates that round 1 needs arrived (client ''client-00017'' refused: the update of task ''digits-20261122T051214-6060-r1-a2-client-00017-0'' has 1.0311842 at element 207 of its delta, beyond ±2^0; raise server.value_bits if that is no error; and 4 more)');
INSERT INTO "events" VALUES('digits-20261122T051215-0a8f',NULL,'2026-11-22T05:12:15.078Z','info','run','started for 100000 rounds');
INSERT INTO "events" VALUES('digits-20261122T051215-0a8f',NULL,'2026-11-22T05:12:15.078Z','info','aggregation','weighted_mean: sums in multiples of 2^-33, values up to 2^10, weights up to 65536, at most 5 updates a version');
INSERT INTO "events" VALUES(NULL,NULL,'2026-01-02T03:04:05.006Z','warning','run','it''s of no run');
CREATE TABLE metrics (
  run_id    TEXT NOT NULL REFERENCES runs (run_id),
  round     INTEGER NOT NULL,
  scope     TEXT NOT NULL CHECK (scope IN ('central', 'federated', 'client')),
  client_id TEXT REFERENCES clients (client_id),
  name      TEXT NOT NULL,
  value     REAL,
  CHECK ((scope = 'client') = (client_id IS NOT NULL))
) STRICT;
INSERT INTO "metrics" VALUES('text-20261122T051212-ea33',1,'client','Aase Ærø','train/loss',3.30090431066659784065e+00);
INSERT INTO "metrics" VALUES('text-20261122T051212-ea33',1,'client','FIRST LORD','train/loss',3.39602767504178570945e+00);
INSERT INTO "metrics" VALUES('text-20261122T051212-ea33',1,'client','x-r1-a1-y-0','train/loss',3.25450954070458031708e+00);
INSERT INTO "metrics" VALUES('text-20261122T051212-ea33',1,'client','王子','train/loss',3.45180370257450963578e+00);
INSERT INTO "metrics" VALUES('text-20261122T051212-ea33',1,'federated',NULL,'train/loss',3.35081130724686859778e+00);
INSERT INTO "metrics" VALUES('text-20261122T051212-ea33',1,'central',NULL,'test/accuracy',2.13930353522300720214e-01);
INSERT INTO "metrics" VALUES('text-20261122T051212-ea33',1,'central',NULL,'test/loss',3.0226993560791015625e+00);
INSERT INTO "metrics" VALUES('text-20261122T051212-ea33',2,'client','Aase Ærø','train/loss',2.55198665765615606559e+00);
INSERT INTO "metrics" VALUES('text-20261122T051212-ea33',2,'client','FIRST LORD','train/loss',2.67133894333472632354e+00);
INSERT INTO "metrics" VALUES('text-20261122T051212-ea33',2,'client','x-r1-a1-y-0','train/loss',2.53264982883746814223e+00);
INSERT INTO "metrics" VALUES('text-20261122T051212-ea33',2,'client','王子','train/loss',2.76929063063401459388e+00);
INSERT INTO "metrics" VALUES('text-20261122T051212-ea33',2,'federated',NULL,'train/loss',2.63131651511559105927e+00);
INSERT INTO "metrics" VALUES('text-20261122T051212-ea33',2,'central',NULL,'test/accuracy',2.13930353522300720214e-01);
INSERT INTO "metrics" VALUES('text-20261122T051212-ea33',2,'central',NULL,'test/loss',2.78202724456787109375e+00);
INSERT INTO "metrics" VALUES('digits-20261122T051214-073b',1,'client','client-00000','train/loss',2.24589109420776367187e+00);
INSERT INTO "metrics" VALUES('digits-20261122T051214-073b',1,'client','client-00005','train/loss',2.35826921463012695312e+00);
INSERT INTO "metrics" VALUES('digits-20261122T051214-073b',1,'client','client-00006','train/loss',2.70145702362060546875e+00);
INSERT INTO "metrics" VALUES('digits-20261122T051214-073b',1,'client','client-00015','train/loss',2.46640062332153320312e+00);
INSERT INTO "metrics" VALUES('digits-20261122T051214-073b',1,'federated',NULL,'train/loss',2.44300448894500732421e+00);
INSERT INTO "metrics" VALUES('digits-20261122T051214-073b',2,'client','client-00002','train/loss',4.85046863555908203125e+00);
INSERT INTO "metrics" VALUES('digits-20261122T051214-073b',2,'client','client-00013','train/loss',4.60835075378418);
INSERT INTO "metrics" VALUES('digits-20261122T051214-073b',2,'client','client-00014','train/loss',6.28206491470336914062e+00);
INSERT INTO "metrics" VALUES('digits-20261122T051214-073b',2,'federated',NULL,'train/loss',5.24696143468221);
INSERT INTO "metrics" VALUES('digits-20261122T051214-073b',2,'central',NULL,'test/accuracy',0.1875);
INSERT INTO "metrics" VALUES('digits-20261122T051214-073b',2,'central',NULL,'test/loss',13.863037109375);
INSERT INTO "metrics" VALUES('digits-20261122T051215-0a8f',1,'client','client-00000','train/loss',2.24589109420776367187e+00);
INSERT INTO "metrics" VALUES('digits-20261122T051215-0a8f',1,'client','client-00005','train/loss',2.35826921463012695312e+00);
INSERT INTO "metrics" VALUES('digits-20261122T051215-0a8f',1,'client','client-00006','train/loss',2.70145702362060546875e+00);
INSERT INTO "metrics" VALUES('digits-20261122T051215-0a8f',1,'client','client-00009','train/loss',2.12888193130493164062e+00);
INSERT INTO "metrics" VALUES('digits-20261122T051215-0a8f',1,'client','client-00015','train/loss',2.46640062332153320312e+00);
INSERT INTO "metrics" VALUES('digits-20261122T051215-0a8f',1,'federated',NULL,'train/loss',2.38017997741699227631e+00);
INSERT INTO "metrics" VALUES('digits-20261122T051215-0a8f',1,'central',NULL,'test/accuracy',0.125);
INSERT INTO "metrics" VALUES('digits-20261122T051215-0a8f',1,'central',NULL,'test/loss',2.35188579559326171875e+00);
INSERT INTO "metrics" VALUES('digits-20261122T051215-0a8f',2,'client','client-00002','train/loss',2.31712198257446289062e+00);
INSERT INTO "metrics" VALUES('digits-20261122T051215-0a8f',2,'client','client-00011','train/loss',2.42318820953369140625e+00);
INSERT INTO "metrics" VALUES('digits-20261122T051215-0a8f',2,'client','client-00012','train/loss',2.39689493179321289062e+00);
INSERT INTO "metrics" VALUES('digits-20261122T051215-0a8f',2,'client','client-00013','train/loss',2.30336141586303710937e+00);
INSERT INTO "metrics" VALUES('digits-20261122T051215-0a8f',2,'client','client-00014','train/loss',2.17636036872863769531e+00);
INSERT INTO "metrics" VALUES('digits-20261122T051215-0a8f',2,'federated',NULL,'train/loss',2.32338538169860830961e+00);
INSERT INTO "metrics" VALUES('digits-20261122T051215-0a8f',2,'central',NULL,'test/accuracy',0.0625);
INSERT INTO "metrics" VALUES('digits-20261122T051215-0a8f',2,'central',NULL,'test/loss',2.21388745307922363281e+00);
INSERT INTO "metrics" VALUES('digits-20261122T051215-0a8f',3,'client','client-00003','train/loss',2.10751843452453613281e+00);
INSERT INTO "metrics" VALUES('digits-20261122T051215-0a8f',3,'client','client-00012','train/loss',2.12636041641235351562e+00);
INSERT INTO "metrics" VALUES('digits-20261122T051215-0a8f',3,'client','client-00013','train/loss',1.9940592050552368164e+00);
INSERT INTO "metrics" VALUES('digits-20261122T051215-0a8f',3,'client','client-00014','train/loss',1.87918138504028320312e+00);
INSERT INTO "metrics" VALUES('digits-20261122T051215-0a8f',3,'client','client-00017','train/loss',2.26116466522216796875e+00);
INSERT INTO "metrics" VALUES('digits-20261122T051215-0a8f',3,'federated',NULL,'train/loss',2.06584399441878);
INSERT INTO "metrics" VALUES('digits-20261122T051215-0a8f',3,'central',NULL,'test/accuracy',0.1875);
INSERT INTO "metrics" VALUES('digits-20261122T051215-0a8f',3,'central',NULL,'test/loss',NULL);
INSERT INTO "metrics" VALUES('text-20261122T051212-ea33',1,'client','Aase Ærø','test/accuracy',0.25);
CREATE TABLE models (
  run_id     TEXT NOT NULL REFERENCES runs (run_id),
  round      INTEGER NOT NULL CHECK (round >= 0),
  digest     TEXT NOT NULL,
  path       TEXT,
  bytes      INTEGER NOT NULL,
  parameters INTEGER NOT NULL,
  PRIMARY KEY (run_id, round)
) STRICT;
INSERT INTO "models" VALUES('text-20261122T051212-ea33',0,'67bc2a221d828634ec386eed101ea3ed0ea97cc84d1a2fd34236fe79caa6e786',NULL,447680,110976);
INSERT INTO "models" VALUES('text-20261122T051212-ea33',1,'5cc9c53f31709f7b7316ac7ab4003beab69663c5d24de4554a39cf4371773d18',NULL,447680,110976);
INSERT INTO "models" VALUES('text-20261122T051212-ea33',2,'2b836250fba9e4e723f1c9e0b4f7a92c378d2881de5ac6381542c63a752ea5fe','runs.sqlite.models/text-20261122T051212-ea33/round-000002.safetensors',447680,110976);
INSERT INTO "models" VALUES('digits-20261122T051214-073b',0,'39c8e613566a1b780f53fa79ec6985d7e10879a5ad8263f08a768a16850c2c64','runs.sqlite.models/digits-20261122T051214-073b/round-000000.safetensors',31848,7850);
INSERT INTO "models" VALUES('digits-20261122T051214-073b',1,'2e753fe9d2dbb08458e8870ea280554948e9193852dbc4e6490f9e7106ef9cb9','runs.sqlite.models/digits-20261122T051214-073b/round-000001.safetensors',31848,7850);
INSERT INTO "models" VALUES('digits-20261122T051214-073b',2,'84530e763c14db1701d6494b3f99c2d0611ca0175bdc5e123f9af29802467b08','runs.sqlite.models/digits-20261122T051214-073b/round-000002.safetensors',31848,7850);
INSERT INTO "models" VALUES('digits-20261122T051214-6060',0,'39c8e613566a1b780f53fa79ec6985d7e10879a5ad8263f08a768a16850c2c64','runs.sqlite.models/digits-20261122T051214-6060/round-000000.safetensors',31848,7850);
INSERT INTO "models" VALUES('digits-20261122T051215-0a8f',0,'39c8e613566a1b780f53fa79ec6985d7e10879a5ad8263f08a768a16850c2c64',NULL,31848,7850);
INSERT INTO "models" VALUES('digits-20261122T051215-0a8f',1,'ee580874a5c5c8ad2d349af5754663f9dafc2f65a1e1adf670a5cd6e583c6dcc',NULL,31848,7850);
INSERT INTO "models" VALUES('digits-20261122T051215-0a8f',2,'d07712583fd8ce943d95a089433905641fb52f375e98a3f304e0c7e0db36d9c7',NULL,31848,7850);
INSERT INTO "models" VALUES('digits-20261122T051215-0a8f',3,'a75dcb82e224053e2595fd1af87a26b4b6e7e40dc1c657890cb7c59cf582f913','runs.sqlite.models/digits-20261122T051215-0a8f/round-000003.safetensors',31848,7850);
CREATE TABLE rounds (
  run_id            TEXT NOT NULL REFERENCES runs (run_id),
  round             INTEGER NOT NULL CHECK (round >= 1),
  attempt           INTEGER NOT NULL CHECK (attempt >= 1),
  status            TEXT NOT NULL CHECK (status IN ('committed', 'abandoned', 'failed')),
  reason            TEXT,
  started_at        TEXT NOT NULL,
  finished_at       TEXT NOT NULL,
  selected          INTEGER NOT NULL,
  reported          INTEGER NOT NULL,
  folded            INTEGER NOT NULL,
  refused           INTEGER NOT NULL,
  dropped           INTEGER NOT NULL,
  failed            INTEGER NOT NULL,
  examples          INTEGER NOT NULL,
  train_loss        REAL,
  bytes_down        INTEGER NOT NULL,
  bytes_up          INTEGER NOT NULL,
  train_seconds     REAL NOT NULL,
  aggregate_seconds REAL NOT NULL,
  evaluate_seconds  REAL NOT NULL,
  model_digest      TEXT,
  PRIMARY KEY (run_id, round, attempt)
) STRICT;
INSERT INTO "rounds" VALUES('text-20261122T051212-ea33',1,1,'committed',NULL,'2026-11-22T05:12:12.405Z','2026-11-22T05:12:13.417Z',4,4,4,0,0,0,104,3.35081130724686859778e+00,487914,1776225,0.909,0.040806875,0.06206138,'5cc9c53f31709f7b7316ac7ab4003beab69663c5d24de4554a39cf4371773d18');
INSERT INTO "rounds" VALUES('text-20261122T051212-ea33',2,1,'committed',NULL,'2026-11-22T05:12:13.429Z','2026-11-22T05:12:14.189Z',4,4,4,0,0,0,104,2.63131651511559105927e+00,447680,1776225,0.68,0.029625684,0.046984844,'2b836250fba9e4e723f1c9e0b4f7a92c378d2881de5ac6381542c63a752ea5fe');
INSERT INTO "rounds" VALUES('digits-20261122T051214-073b',1,1,'committed',NULL,'2026-11-22T05:12:14.505Z','2026-11-22T05:12:14.525Z',5,4,4,0,0,1,20,2.44300448894500732421e+00,35989,157785,0.008,0.011251563,0.0,'2e753fe9d2dbb08458e8870ea280554948e9193852dbc4e6490f9e7106ef9cb9');
INSERT INTO "rounds" VALUES('digits-20261122T051214-073b',2,1,'committed',NULL,'2026-11-22T05:12:14.537Z','2026-11-22T05:12:14.553Z',5,5,3,2,0,0,15,5.24696143468221,31848,157785,0.004,0.011488556,0.000244783,'84530e763c14db1701d6494b3f99c2d0611ca0175bdc5e123f9af29802467b08');
INSERT INTO "rounds" VALUES('digits-20261122T051214-6060',1,1,'abandoned','0 of 5 updates that round 1 needs arrived (client ''client-00005'' refused: the update of task ''digits-20261122T051214-6060-r1-a1-client-00005-0'' has 2.0030901 at element 365 of its delta, beyond ±2^0; raise server.value_bits if that is no error; and 4 more)','2026-11-22T05:12:14.837Z','2026-11-22T05:12:14.850Z',5,5,0,5,0,0,0,NULL,35989,157785,0.013,0.0,0.0,NULL);
INSERT INTO "rounds" VALUES('digits-20261122T051214-6060',1,2,'abandoned','0 of 5 updates that round 1 needs arrived (client ''client-00017'' refused: the update of task ''digits-20261122T051214-6060-r1-a2-client-00017-0'' has 1.0311842 at element 207 of its delta, beyond ±2^0; raise server.value_bits if that is no error; and 4 more)','2026-11-22T05:12:14.857Z','2026-11-22T05:12:14.862Z',5,5,1,4,0,0,0,NULL,0,157785,0.005,0.0,0.0,NULL);
INSERT INTO "rounds" VALUES('digits-20261122T051215-0a8f',1,1,'committed',NULL,'2026-11-22T05:12:15.157Z','2026-11-22T05:12:15.201Z',5,5,5,0,0,0,25,2.38017997741699227631e+00,35991,157785,0.008,0.031763301,0.000304558,'ee580874a5c5c8ad2d349af5754663f9dafc2f65a1e1adf670a5cd6e583c6dcc');
INSERT INTO "rounds" VALUES('digits-20261122T051215-0a8f',2,1,'committed',NULL,'2026-11-22T05:12:15.229Z','2026-11-22T05:12:15.232Z',5,5,5,0,0,0,25,2.32338538169860830961e+00,31848,157785,0.001,1.14096200000000013927e-03,0.000193958,'d07712583fd8ce943d95a089433905641fb52f375e98a3f304e0c7e0db36d9c7');
INSERT INTO "rounds" VALUES('digits-20261122T051215-0a8f',3,1,'committed',NULL,'2026-11-22T05:12:15.241Z','2026-11-22T05:12:15.245Z',5,5,5,0,0,0,24,2.06584399441878,31848,157785,0.002,1.22503100000000012329e-03,0.000196675,'a75dcb82e224053e2595fd1af87a26b4b6e7e40dc1c657890cb7c59cf582f913');
CREATE TABLE run_clients (
  run_id       TEXT NOT NULL REFERENCES runs (run_id),
  client_id    TEXT NOT NULL REFERENCES clients (client_id),
  from_round   INTEGER NOT NULL,
  from_attempt INTEGER NOT NULL,
  PRIMARY KEY (run_id, client_id)
) STRICT, WITHOUT ROWID;
INSERT INTO "run_clients" VALUES('digits-20261122T051214-073b','client-00000',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-073b','client-00001',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-073b','client-00002',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-073b','client-00003',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-073b','client-00004',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-073b','client-00005',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-073b','client-00006',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-073b','client-00007',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-073b','client-00008',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-073b','client-00009',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-073b','client-00010',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-073b','client-00011',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-073b','client-00012',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-073b','client-00013',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-073b','client-00014',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-073b','client-00015',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-073b','client-00016',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-073b','client-00017',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-073b','client-00018',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-073b','client-00019',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-6060','client-00000',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-6060','client-00001',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-6060','client-00002',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-6060','client-00003',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-6060','client-00004',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-6060','client-00005',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-6060','client-00006',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-6060','client-00007',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-6060','client-00008',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-6060','client-00009',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-6060','client-00010',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-6060','client-00011',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-6060','client-00012',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-6060','client-00013',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-6060','client-00014',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-6060','client-00015',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-6060','client-00016',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-6060','client-00017',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-6060','client-00018',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051214-6060','client-00019',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051215-0a8f','client-00000',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051215-0a8f','client-00001',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051215-0a8f','client-00002',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051215-0a8f','client-00003',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051215-0a8f','client-00004',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051215-0a8f','client-00005',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051215-0a8f','client-00006',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051215-0a8f','client-00007',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051215-0a8f','client-00008',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051215-0a8f','client-00009',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051215-0a8f','client-00010',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051215-0a8f','client-00011',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051215-0a8f','client-00012',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051215-0a8f','client-00013',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051215-0a8f','client-00014',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051215-0a8f','client-00015',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051215-0a8f','client-00016',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051215-0a8f','client-00017',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051215-0a8f','client-00018',1,1);
INSERT INTO "run_clients" VALUES('digits-20261122T051215-0a8f','client-00019',1,1);
INSERT INTO "run_clients" VALUES('text-20261122T051212-ea33','Aase Ærø',1,1);
INSERT INTO "run_clients" VALUES('text-20261122T051212-ea33','FIRST LORD',1,1);
INSERT INTO "run_clients" VALUES('text-20261122T051212-ea33','x-r1-a1-y-0',1,1);
INSERT INTO "run_clients" VALUES('text-20261122T051212-ea33','王子',1,1);
CREATE TABLE runs (
  run_id      TEXT PRIMARY KEY NOT NULL,
  name        TEXT NOT NULL,
  status      TEXT NOT NULL CHECK (status IN ('running', 'finished', 'interrupted', 'failed')),
  reason      TEXT,
  config      TEXT NOT NULL,
  plan_digest TEXT NOT NULL,
  seed        INTEGER NOT NULL,
  version     TEXT NOT NULL,
  created_at  TEXT NOT NULL,
  started_at  TEXT,
  finished_at TEXT
) STRICT;
INSERT INTO "runs" VALUES('text-20261122T051212-ea33','text','finished',NULL,'[run]
name = "text"
rounds = 2
seed = 5
keep_models = "last"
kernels = "native"

[model]
preset = "tiny_transformer"
graph = ""
onnx = ""
layers = []
classes = 0
freeze = []

[model.input]
shape = []

[data]
train = "/tmp/tmpopyxm5_x/plays/train.tfrecord"
test = "/tmp/tmpopyxm5_x/plays/test.tfrecord"
image_feature = ""
label_feature = "label"

[data.partition]
kind = "by_key"
clients = 4
key = "speaker"

[data.synth]
kind = ""

[client]
epochs = 1
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

[server]
algorithm = "fedavg"
clients_per_round = 4
min_clients = 0
min_reports = 0
deadline = 600.0
max_attempts = 3
learning_rate = 1.0
max_weight = 65536
value_bits = 10
staging_megabytes = 64

[evaluation]
every = 1
batch_size = 100
','cafa6e7f079d940d29764f4abf07c7fe4d1d67725abd970f36890eaceb989f39',5,'0.1.0','2026-11-22T05:12:12.305Z','2026-11-22T05:12:12.305Z','2026-11-22T05:12:14.189Z');
INSERT INTO "runs" VALUES('digits-20261122T051214-073b','digits','finished',NULL,'[run]
name = "digits"
rounds = 2
seed = 7
keep_models = "all"
kernels = "native"

[model]
preset = "logistic_regression"
graph = ""
onnx = ""
layers = []
classes = 0
freeze = []

[model.input]
shape = []

[data]
train = "/tmp/tmpopyxm5_x/data/train.tfrecord"
test = "/tmp/tmpopyxm5_x/data/test.tfrecord"
image_feature = ""
label_feature = "label"

[data.partition]
kind = "iid"
clients = 20

[data.synth]
kind = "digits"
writers = 12
test_writers = 2
examples_per_writer = 8
seed = 3

[client]
epochs = 1
batch_size = 5
shuffle = true
input_graph = ""
precision = "float32"

[client.optimizer]
kind = "sgd"
learning_rate = 2.5
weight_decay = 0.0
clip_norm = 0.0
clip_value = 0.0

[client.loss_scale]
kind = "none"

[client.schedule]
kind = "constant"
warmup = 0

[server]
algorithm = "fedavg"
clients_per_round = 5
min_clients = 0
min_reports = 3
deadline = 600.0
max_attempts = 9
learning_rate = 1.0
max_weight = 65536
value_bits = 0
staging_megabytes = 64

[evaluation]
every = 2
batch_size = 100
','f93ad518edba686eec17b06ef2f0002162f38e94faee0d0fc9bea5d8ed6bf76b',7,'0.1.0','2026-11-22T05:12:14.415Z','2026-11-22T05:12:14.415Z','2026-11-22T05:12:14.553Z');
INSERT INTO "runs" VALUES('digits-20261122T051214-6060','digits','failed','round 1 was given up after 2 attempts; in the last, 0 of 5 updates that round 1 needs arrived (client ''client-00017'' refused: the update of task ''digits-20261122T051214-6060-r1-a2-client-00017-0'' has 1.0311842 at element 207 of its delta, beyond ±2^0; raise server.value_bits if that is no error; and 4 more)','[run]
name = "digits"
rounds = 3
seed = 7
keep_models = "last"
kernels = "native"

[model]
preset = "logistic_regression"
graph = ""
onnx = ""
layers = []
classes = 0
freeze = []

[model.input]
shape = []

[data]
train = "/tmp/tmpopyxm5_x/data/train.tfrecord"
test = "/tmp/tmpopyxm5_x/data/test.tfrecord"
image_feature = ""
label_feature = "label"

[data.partition]
kind = "iid"
clients = 20

[data.synth]
kind = "digits"
writers = 12
test_writers = 2
examples_per_writer = 8
seed = 3

[client]
epochs = 1
batch_size = 5
shuffle = true
input_graph = ""
precision = "float32"

[client.optimizer]
kind = "sgd"
learning_rate = 20.0
weight_decay = 0.0
clip_norm = 0.0
clip_value = 0.0

[client.loss_scale]
kind = "none"

[client.schedule]
kind = "constant"
warmup = 0

[server]
algorithm = "fedavg"
clients_per_round = 5
min_clients = 0
min_reports = 0
deadline = 600.0
max_attempts = 2
learning_rate = 1.0
max_weight = 65536
value_bits = 0
staging_megabytes = 64

[evaluation]
every = 1
batch_size = 100
','8df80fe19bc5f40a67c3e824e348dfc5b3ba4e6baf3ba47f80b03767393b922e',7,'0.1.0','2026-11-22T05:12:14.748Z','2026-11-22T05:12:14.748Z','2026-11-22T05:12:14.873Z');
INSERT INTO "runs" VALUES('digits-20261122T051215-0a8f','digits','interrupted',NULL,'[run]
name = "digits"
rounds = 100000
seed = 7
keep_models = "last"
kernels = "native"

[model]
preset = "logistic_regression"
graph = ""
onnx = ""
layers = []
classes = 0
freeze = []

[model.input]
shape = []

[data]
train = "/tmp/tmpopyxm5_x/data/train.tfrecord"
test = "/tmp/tmpopyxm5_x/data/test.tfrecord"
image_feature = ""
label_feature = "label"

[data.partition]
kind = "iid"
clients = 20

[data.synth]
kind = "digits"
writers = 12
test_writers = 2
examples_per_writer = 8
seed = 3

[client]
epochs = 1
batch_size = 5
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

[server]
algorithm = "fedavg"
clients_per_round = 5
min_clients = 0
min_reports = 0
deadline = 600.0
max_attempts = 3
learning_rate = 1.0
max_weight = 65536
value_bits = 10
staging_megabytes = 64

[evaluation]
every = 1
batch_size = 100
','91bd8bb74343d9c541f1fc1d751179ec55a21c8fc88076db31baf57022f2a9df',7,'0.1.0','2026-11-22T05:12:15.078Z','2026-11-22T05:12:15.078Z','2026-11-22T05:12:16.969Z');
CREATE INDEX client_rounds_by_round ON client_rounds (run_id, round, attempt);
CREATE INDEX client_rounds_by_client ON client_rounds (run_id, client_id, round, attempt);
CREATE UNIQUE INDEX metrics_key ON metrics (run_id, round, scope, name, coalesce(client_id, ''));
CREATE INDEX events_by_run ON events (run_id, at);
CREATE VIEW round_summary AS
SELECT r.run_id, runs.name, r.round, r.attempt AS attempts, r.selected, r.folded, r.refused, r.dropped, r.failed,
       r.examples, r.train_loss,
       (SELECT value FROM metrics m WHERE m.run_id = r.run_id AND m.round = r.round AND m.scope = 'central'
                                      AND m.name = 'test/accuracy') AS test_accuracy,
       (SELECT value FROM metrics m WHERE m.run_id = r.run_id AND m.round = r.round AND m.scope = 'central'
                                      AND m.name = 'test/loss') AS test_loss,
       r.bytes_down, r.bytes_up, r.train_seconds, r.aggregate_seconds, r.evaluate_seconds, r.model_digest
FROM rounds r JOIN runs ON runs.run_id = r.run_id
WHERE r.status = 'committed'
ORDER BY r.run_id, r.round;
CREATE VIEW client_reliability AS
SELECT c.run_id, c.client_id, count(*) AS tasks,
       sum(c.status = 'folded') AS folded, sum(c.status = 'refused') AS refused, sum(c.status = 'dropped') AS dropped,
       sum(c.status = 'failed') AS failed, avg(c.status = 'folded') AS reliability,
       sum(CASE WHEN c.status = 'folded' THEN c.examples ELSE 0 END) AS examples,
       avg(c.train_seconds) AS mean_train_seconds, clients.last_seen_at
FROM client_rounds c JOIN clients ON clients.client_id = c.client_id
GROUP BY c.run_id, c.client_id
ORDER BY c.run_id, c.client_id;
CREATE VIEW run_leaderboard AS
WITH accuracy AS (
  SELECT run_id, round, value,
         row_number() OVER (PARTITION BY run_id ORDER BY value DESC, round) AS best,
         row_number() OVER (PARTITION BY run_id ORDER BY round DESC) AS latest
  FROM metrics WHERE scope = 'central' AND name = 'test/accuracy')
SELECT runs.run_id, runs.name, runs.status, runs.seed,
       (SELECT count(*) FROM rounds r WHERE r.run_id = runs.run_id AND r.status = 'committed') AS rounds,
       b.value AS best_accuracy, b.round AS best_round, l.value AS last_accuracy, l.round AS last_round,
       (SELECT sum(train_seconds + aggregate_seconds + evaluate_seconds) FROM rounds r WHERE r.run_id = runs.run_id)
         AS seconds,
       runs.created_at
FROM runs
LEFT JOIN accuracy b ON b.run_id = runs.run_id AND b.best = 1
LEFT JOIN accuracy l ON l.run_id = runs.run_id AND l.latest = 1
ORDER BY best_accuracy DESC, best_round;
COMMIT;
