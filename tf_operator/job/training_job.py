"""A training job, whichever served API it came from: what is wanted of it.

Frozen values with the meaning and not the spelling of the APIs: a dialect decodes its JSON into these types, and
everything above reads only these. What is in force is said explicitly (the defaults have been applied). A job that
cannot be run at all is a value, too: it has ``problems``, and whatever else of it could be read.

``record`` holds what is remembered of the job; see the module of that name.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Self

import msgspec
from msgspec import structs

from tf_operator.job.constants import OWN_MANAGER
from tf_operator.job.memory import MemoryLimit, OOMPolicy
from tf_operator.job.profile import Profile
from tf_operator.job.progress import NO_PROGRESS_POLICY, ProgressPolicy
from tf_operator.job.record import NO_RECORD, JobRecord, ReplicaType
from tf_operator.job.tensorboard import TensorBoard
from tf_operator.meta import Body, ObjectKey, OwnerRef


class RestartPolicy(StrEnum):
    """What happens when a replica fails."""

    NEVER = "Never"
    ON_FAILURE = "OnFailure"
    ALWAYS = "Always"
    EXIT_CODE = "ExitCode"


class CleanPodPolicy(StrEnum):
    """Which pods go when the job has ended."""

    NONE = "None"
    RUNNING = "Running"
    """Those that have not ended, and all Services."""
    STOP = "Stop"
    """None: those that have not ended are stopped, so that their logs can be read. Services stay."""
    ALL = "All"


class SuccessPolicy(StrEnum):
    """When a job without a chief has succeeded: with worker 0, or with all workers."""

    DEFAULT = ""
    ALL_WORKERS = "AllWorkers"


class RestartScope(StrEnum):
    """What starts again when a replica is replaced."""

    REPLICA = "Replica"
    JOB = "Job"
    """Every replica that has not completed: for programs that train in step."""


class RestartMethod(StrEnum):
    """How a whole job starts again."""

    RECREATE = "Recreate"
    """By new pods."""
    IN_PLACE = "InPlace"
    """The containers of its pods start again, where operator and cluster can do it."""


class TFConfigFormat(StrEnum):
    """Which other replicas TF_CONFIG lists."""

    FULL = "Full"
    """All of them."""
    SPARSE = "Sparse"
    """Only those that it needs in training with parameter servers."""


class ServiceMode(StrEnum):
    """By which Services the replicas of a job find each other."""

    REPLICA = "Replica"
    """Each has one of its own."""
    JOB = "Job"
    """One for all of them, in which each has the name of its own."""


class NetworkPolicyMode(StrEnum):
    """Who may connect to the pods of a job, as far as the operator has a say in it."""

    NONE = "None"
    """Whoever others let in."""
    JOB = "Job"
    """Only pods of the job."""


class FieldError(msgspec.Struct, frozen=True):
    """One thing that is wrong with a job: the field as a user would write it, and the rule it breaks."""

    field: str
    rule: str
    is_tolerated: bool = False
    """training-operator 1.9 ran such jobs: one that it has started goes on, only a new one is refused."""

    def __str__(self) -> str:
        return f"{self.field}: {self.rule}"


class Override(msgspec.Struct, frozen=True):
    """What the deciding container of a pod runs in place of what its template says."""

    command: tuple[str, ...] | None = None
    """``None``: the template's."""
    args: tuple[str, ...] | None = None
    """``None``: the template's; empty: none."""
    skips_init_containers: bool = False
    drops_probes: bool = False
    """Without liveness and startup probes, which another command would fail."""


class DecidingReplica(msgspec.Struct, frozen=True):
    """The replica that alone decides how the job ends."""

    type: ReplicaType
    index: int = 0
    path: str = ""
    """Where the manifest names it, for messages."""


class ReplicaSpec(msgspec.Struct, frozen=True):
    """The replicas of one type. ``template`` is the user's pod template, as JSON."""

    type: ReplicaType
    count: int
    restart_policy: RestartPolicy
    template: Body
    path: str = ""
    """Where it stands in the manifest, for messages: APIs differ, and so do users' spellings."""
    port: int | None = None
    """The port of the cluster; ``None`` for that of the profile."""
    override: Override | None = None
    """What its pods run now in place of their template; pods that are there already stay as they are."""
    is_default_server: bool = False
    """It runs the standard TensorFlow server: reading has added the container, planning adds its program."""
    oom_policy: OOMPolicy | None = None
    memory: MemoryLimit | None = None
    """Of its template, as it is in force: only with an ``oom_policy``, and if there is a limit."""


class SchedulingPolicy(msgspec.Struct, frozen=True):
    """What a gang scheduler gets."""

    min_available: int | None = None
    queue: str = ""
    min_resources: Mapping[str, Any] | None = None
    priority_class: str = ""
    timeout_seconds: int | None = None
    scheduler: str = ""
    """The gang scheduler that the job itself asks for, or ``none``; empty for the operator's, if it has one."""
    priority: int = 0
    """In the queue; only for schedulers with such numbers."""


class RunPolicy(msgspec.Struct, frozen=True):
    """The limits and the end of a job. ``None`` is no limit."""

    clean_pods: CleanPodPolicy = CleanPodPolicy.NONE
    ttl_seconds: int | None = None
    deadline_seconds: int | None = None
    startup_deadline_seconds: int | None = None
    backoff_limit: int | None = None
    restart_scope: RestartScope = RestartScope.REPLICA
    restart_method: RestartMethod = RestartMethod.RECREATE
    """Of a scope of the whole job."""
    avoid_after: int | None = None
    """After how many failures of its replicas on a node the job's next pods avoid that; ``None``: never."""
    progress: ProgressPolicy = NO_PROGRESS_POLICY
    is_suspended: bool = False
    managed_by: str = OWN_MANAGER
    scheduling: SchedulingPolicy = SchedulingPolicy()

    @property
    def restarts_in_place(self) -> bool:
        """Whether a program that fails is started again in its pod, and takes along those of the other pods."""
        return self.restart_scope is RestartScope.JOB and self.restart_method is RestartMethod.IN_PLACE


class ElasticRange(msgspec.Struct, frozen=True):
    """How many replicas of one type there may be while the job runs."""

    type: ReplicaType
    least: int
    most: int
    path: str = ""
    """Where it stands in the manifest, for messages."""


class ElasticPolicy(msgspec.Struct, frozen=True):
    """What may be resized while the job runs, and by what."""

    ranges: tuple[ElasticRange, ...]
    """Workers, and parameter servers where the job has opted in."""
    metrics: tuple[Body, ...] = ()
    """Of a HorizontalPodAutoscaler, as users write them; with any, that alone resizes the job."""
    restarts_in_place: bool = False
    """Whether pods that train in another cluster after a resize are kept, and their containers start again."""

    def down_to(self, counts: Mapping[ReplicaType, int]) -> Self:
        """The same, where there may be as few replicas of a type as this."""
        ranges = (
            structs.replace(limits, least=min(limits.least, counts.get(limits.type, limits.least)))
            for limits in self.ranges
        )
        return structs.replace(self, ranges=tuple(ranges))

    def range_of(self, kind: ReplicaType) -> ElasticRange | None:
        """Within which counts a type may be resized; ``None`` for not at all."""
        return next((limits for limits in self.ranges if limits.type is kind), None)


class TrainingJob(msgspec.Struct, frozen=True, dict=True):
    """One job. ``replicas`` has every type that was asked for, in the order in which their pods are made.

    Its dictionary is for what is worked out of it, and is no part of it: ``validation`` remembers there what it found.
    """

    key: ObjectKey
    uid: str
    resource_version: str
    profile: Profile
    replicas: tuple[ReplicaSpec, ...] = ()
    run_policy: RunPolicy = RunPolicy()
    success_policy: SuccessPolicy = SuccessPolicy.DEFAULT
    has_dynamic_workers: bool = False
    tf_config_format: TFConfigFormat = TFConfigFormat.FULL
    service_mode: ServiceMode = ServiceMode.REPLICA
    network_policy: NetworkPolicyMode | None = None
    """``None``: that of the operator."""
    elastic: ElasticPolicy | None = None
    runtime_id: str = ""
    """Part of the names of its children under ``NameStyle.GENERATED``; never changes."""
    deciding: DecidingReplica | None = None
    """``None``: by type, see ``main_replica``."""
    outdated_fields: tuple[str, ...] = ()
    """Fields that are in force although they should stand elsewhere today."""
    record: JobRecord = NO_RECORD
    problems: tuple[FieldError, ...] = ()
    tensorboard: TensorBoard | None = None
    """One that the operator runs beside the job."""
    tensorboard_spec: Body | None = None
    """The spec of an object of kind TensorBoard, which the job has made for itself."""
    annotations: Mapping[str, str] = msgspec.field(default_factory=dict)
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Only those that a queue reads; of jobs that say nothing to one, none."""
    generation: int = 0
    is_being_deleted: bool = False
    stored_status: Body = msgspec.field(default_factory=dict)
    """The status as it is stored, from which the dialect writes the next one without losing what others put there."""

    @property
    def is_ours(self) -> bool:
        """Whether this operator looks after it, by ``managedBy``."""
        return self.run_policy.managed_by == OWN_MANAGER

    @property
    def has_one_service(self) -> bool:
        return self.service_mode is ServiceMode.JOB

    @property
    def is_isolated(self) -> bool:
        """Whether only its own pods may connect to its pods."""
        return self.network_policy is NetworkPolicyMode.JOB

    @property
    def pod_count(self) -> int:
        return sum(spec.count for spec in self.replicas)

    def spec_of(self, kind: ReplicaType) -> ReplicaSpec | None:
        """The replicas of this type, if there are to be any."""
        return next((spec for spec in self.replicas if spec.type is kind and spec.count), None)

    def in_force(self, *, has_job_queue: bool = True) -> Self:
        """The same job with as many workers as the job queue has decided, if it may decide that, and all its memory.

        Who has changed the number in the spec since then has the last word: the decision is dropped from the record,
        because the number that it was about may return. In a queue there are never more than the job has room for.
        """
        job, missing = self._as_decided().with_memory(), self.without_room if has_job_queue else {}
        if not missing:
            return job
        counts = {spec.type: spec.count - missing[spec.type] for spec in job.replicas if spec.type in missing}
        replicas = tuple(structs.replace(spec, count=counts.get(spec.type, spec.count)) for spec in job.replicas)
        return structs.replace(job, replicas=replicas, elastic=job.elastic and job.elastic.down_to(counts))

    def with_memory(self) -> Self:
        """The same job, where the templates have the memory that their types have grown to.

        An edit wins that gives a type as much, or more: what was recorded is dropped, because less may return.
        """
        if not any(spec.oom_policy and spec.memory is None for spec in self.replicas) and not self.record.has_grown:
            return self
        replicas = tuple(self._with_memory(spec) for spec in self.replicas)
        grown = {spec.type for spec in replicas if spec.memory and spec.memory.is_grown}
        records = {
            kind: replica if kind in grown else structs.replace(replica, memory="")
            for kind, replica in self.record.replicas.items()
        }
        return structs.replace(self, replicas=replicas, record=self.record.changed(replicas=records))

    def _with_memory(self, spec: ReplicaSpec) -> ReplicaSpec:
        if spec.oom_policy is None or spec.memory:
            return spec
        container, recorded = self.profile.container, self.record.of(spec.type).memory
        memory = MemoryLimit.of(spec.oom_policy, spec.template, container, recorded)
        if memory is None:
            return spec
        template = memory.applied(spec.template, container) if memory.is_grown else spec.template
        return structs.replace(spec, memory=memory, template=template)

    @property
    def without_room(self) -> Mapping[ReplicaType, int]:
        """How many replicas of which types wait for room in the queue that has admitted the others."""
        specs, queue = self._as_decided().replicas, self.record.queue
        limits = ((spec, queue.admitted_of(spec.type)) for spec in specs)
        return {spec.type: spec.count - most for spec, most in limits if most is not None and spec.count > most}

    def _as_decided(self) -> Self:
        elastic, workers = self.record.elastic, self.spec_of(ReplicaType.WORKER)
        if elastic.workers is None or workers is None:
            return self
        if elastic.asked_for is not None and workers.count != elastic.asked_for:
            elastic_record = structs.replace(elastic, workers=None, asked_for=None)
            return structs.replace(self, record=self.record.changed(elastic=elastic_record))
        elastic_range = self.elastic.range_of(ReplicaType.WORKER) if self.elastic and not self.elastic.metrics else None
        if elastic_range is None:
            return self
        resized_spec = structs.replace(
            workers, count=min(max(elastic.workers, elastic_range.least), elastic_range.most)
        )
        return structs.replace(
            self, replicas=tuple(resized_spec if spec is workers else spec for spec in self.replicas)
        )

    @property
    def leader(self) -> ReplicaSpec | None:
        """The chief, or master: if there is one, it alone decides success."""
        return self.spec_of(ReplicaType.CHIEF) or self.spec_of(ReplicaType.MASTER)

    @property
    def has_servers_without_chief(self) -> bool:
        """Whether workers and parameter servers may wait for a chief for ever, as the strategy of TensorFlow 2 does.

        It is no error: programs that were written for TensorFlow 1 need none, and dynamic workers run only such.
        """
        has_servers = self.spec_of(ReplicaType.PS) and self.spec_of(ReplicaType.WORKER)
        return bool(has_servers) and self.leader is None and not self.has_dynamic_workers

    @property
    def main_replica(self) -> tuple[ReplicaType, int]:
        """The replica that stands for the job: the one that the job names, the chief, or worker 0."""
        if self.deciding:
            return self.deciding.type, self.deciding.index
        leader = self.leader
        return leader.type if leader else ReplicaType.WORKER, 0

    @property
    def clean_up_words(self) -> str:
        """The policy about pods after the end, as its users write it; for messages."""
        policy = self.run_policy.clean_pods
        return self.profile.words.clean_up_values.get(policy, f"{self.profile.words.clean_up} {policy}")

    @property
    def owner_reference(self) -> OwnerRef:
        return OwnerRef(
            self.profile.api_version,
            self.profile.kind,
            self.key.name,
            self.uid,
            controller=True,
            block_owner_deletion=True,
        )
