//! Feature gates: etcd's names, stages and defaults, so that the `--feature-gates` of an etcd deployment are accepted.

use super::scalar::parse_bool;

/// etcd's stage of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateStage {
    /// Off by default.
    Alpha,
    /// On by default.
    Beta,
}

impl GateStage {
    /// The label of the metric `etcd_server_feature_enabled`.
    pub fn name(self) -> &'static str {
        match self {
            GateStage::Alpha => "ALPHA",
            GateStage::Beta => "BETA",
        }
    }
}

/// One gate and whether it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureGate {
    /// Name in `--feature-gates`.
    pub name: &'static str,
    /// etcd's stage.
    pub stage: GateStage,
    /// Whether it is open unless set.
    pub default: bool,
    /// Whether it is open.
    pub enabled: bool,
    /// Why it makes no difference, if it makes none.
    pub no_effect: Option<&'static str>,
}

const fn alpha(name: &'static str, no_effect: Option<&'static str>) -> FeatureGate {
    FeatureGate { name, stage: GateStage::Alpha, default: false, enabled: false, no_effect }
}

const fn beta(name: &'static str, no_effect: Option<&'static str>) -> FeatureGate {
    FeatureGate { name, stage: GateStage::Beta, default: true, enabled: true, no_effect }
}

const REMAINDERS: Option<&str> = Some("the remaining times of long leases are always recorded");

const GATES: [FeatureGate; 9] = [
    alpha("CompactHashCheck", None),
    beta("FastLeaseKeepAlive", Some("renewals always wait until earlier commands are applied")),
    alpha("InitialCorruptCheck", None),
    alpha("LeaseCheckpoint", REMAINDERS),
    alpha("LeaseCheckpointPersist", REMAINDERS),
    alpha("PriorityRequest", None),
    alpha("SetMemberLocalAddr", None),
    alpha("StopGRPCServiceOnDefrag", Some("nothing waits for defragmentation")),
    beta("TxnModeWriteWithSharedBuffer", Some("there is no bbolt")),
];

/// Names that stand for all gates of a stage.
const ALL: [(&str, GateStage); 2] = [("AllAlpha", GateStage::Alpha), ("AllBeta", GateStage::Beta)];

/// All gates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureGates {
    gates: Vec<FeatureGate>,
    /// The names of [`ALL`] that were given as true.
    stages: [bool; ALL.len()],
}

impl FeatureGates {
    /// Reads `Name=true,Other=false`. A gate that is named outranks `AllAlpha` and `AllBeta`.
    ///
    /// # Errors
    /// An unknown gate, or a value that is not a boolean.
    pub(crate) fn parse(text: &str) -> Result<FeatureGates, String> {
        let mut gates = GATES.to_vec();
        let (mut named, mut stages) = (Vec::new(), [false; ALL.len()]);
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (name.trim(), value.trim());
            if value.is_empty() {
                return Err(format!("missing bool value for {name}; expected {name}=true or {name}=false"));
            }
            let value = parse_bool(value).ok_or_else(|| {
                format!("invalid value of {name}={value}, err: not a bool; expected true or false")
            })?;
            named.push((name, value));
        }
        for ((name, stage), given_value) in ALL.into_iter().zip(&mut stages) {
            if let Some((_, value)) = named.iter().rfind(|(given, _)| *given == name) {
                gates.iter_mut().filter(|gate| gate.stage == stage).for_each(|gate| gate.enabled = *value);
                *given_value = *value;
            }
        }
        for (name, value) in named.into_iter().filter(|(name, _)| !ALL.iter().any(|(all, _)| all == name)) {
            let gate = gates.iter_mut().find(|gate| gate.name == name);
            gate.ok_or_else(|| unknown(name))?.enabled = value;
        }
        Ok(FeatureGates { gates, stages })
    }

    /// Whether the gate of that name is open; false for an unknown name.
    pub fn enabled(&self, name: &str) -> bool {
        self.gates.iter().any(|gate| gate.name == name && gate.enabled)
    }

    /// The gates that were opened or closed to no effect, each with the reason.
    pub(crate) fn without_effect(&self) -> Vec<String> {
        let changed = self.gates.iter().filter(|gate| gate.enabled != gate.default);
        changed.filter_map(|gate| Some(format!("{} ({})", gate.name, gate.no_effect?))).collect()
    }

    /// All gates, in the order of their names.
    pub fn all(&self) -> &[FeatureGate] {
        &self.gates
    }

    /// The names that stand for all gates of a stage, and whether they were given as true.
    pub fn stages(&self) -> impl Iterator<Item = (&'static str, GateStage, bool)> {
        ALL.into_iter().zip(self.stages).map(|((name, stage), is_given)| (name, stage, is_given))
    }
}

fn unknown(name: &str) -> String {
    let known = ALL.map(|(name, _)| name).into_iter().chain(GATES.map(|gate| gate.name));
    format!("unrecognized feature gate: {name}; expected one of {}", known.collect::<Vec<_>>().join(", "))
}

/// A line for each gate, as `--help` and the contract list them.
pub(crate) fn describe() -> Vec<String> {
    let all = ALL.iter().map(|(name, stage)| (*name, *stage, false));
    let gates = GATES.iter().map(|gate| (gate.name, gate.stage, gate.default));
    let line = |(name, stage, default): (&str, GateStage, bool)| {
        format!("{name}=true|false ({} - default={default})", stage.name())
    };
    all.chain(gates).map(line).collect()
}

#[cfg(test)]
mod tests {
    //! Feature gates against etcd's list and rules.

    use super::*;

    #[test]
    fn the_list_is_etcds() {
        let contract = include_str!("../../../tests/contract/feature-gates.txt");
        assert_eq!(describe(), contract.lines().collect::<Vec<_>>());
    }

    #[test]
    fn a_named_gate_outranks_its_stage() {
        let gates = FeatureGates::parse("LeaseCheckpoint=false,AllAlpha=true, AllBeta=0").expect("gates");
        assert!(!gates.enabled("LeaseCheckpoint"));
        assert!(gates.enabled("InitialCorruptCheck"));
        assert!(!gates.enabled("FastLeaseKeepAlive"));
        assert!(!gates.enabled("AllAlpha"));
    }

    #[test]
    fn a_gate_without_effect_says_why() {
        let told = |text| FeatureGates::parse(text).expect("gates").without_effect();
        assert_eq!(told("CompactHashCheck=true,FastLeaseKeepAlive=true"), Vec::<String>::new());
        let expected = "FastLeaseKeepAlive (renewals always wait until earlier commands are applied)";
        assert_eq!(told("InitialCorruptCheck=true,FastLeaseKeepAlive=false"), [expected]);
    }

    #[test]
    fn errors_are_etcds() {
        let error = |text| FeatureGates::parse(text).expect_err(text);
        assert!(
            error("Nonsense=true")
                .starts_with("unrecognized feature gate: Nonsense; expected one of AllAlpha, ")
        );
        let missing = "missing bool value for LeaseCheckpoint; ";
        assert!(error("LeaseCheckpoint").starts_with(missing));
        let invalid = "invalid value of LeaseCheckpoint=x, err: not a bool; ";
        assert!(error("LeaseCheckpoint=x").starts_with(invalid));
    }
}
