{{- /* Generated from manifests/rbac and manifests/overlays/protected-metrics: edit it and run hack/generate chart. */ -}}

{{- define "tf-operator.rules" -}}
# get: a live read before anything irreversible; list, watch: the cache; delete: ttlSecondsAfterFinished.
- apiGroups: [kubeflow.org]
  resources: [tfjobs]
  verbs: [get, list, watch, delete]
# Status is written by patch only, guarded by resourceVersion; spec and metadata are the user's.
- apiGroups: [kubeflow.org]
  resources: [tfjobs/status]
  verbs: [patch]
# Not to set finalizers, there are none: where OwnerReferencesPermissionEnforcement is on, this is what
# blockOwnerDeletion in the owner references of children asks for.
- apiGroups: [kubeflow.org]
  resources: [tfjobs/finalizers]
  verbs: [update]
# Pods and services are created and deleted, never changed. get: who owns an object that already has the name?
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, delete]
# deletecollection: all Services of a job that has ended, selected by the job's UID, in one request.
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, delete, deletecollection]
# patch: the count of a repeated event is updated.
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
# Gang scheduling by Volcano or by the coscheduling plugin; patch: a job that changed its size.
- apiGroups: [scheduling.volcano.sh, scheduling.x-k8s.io]
  resources: [podgroups]
  verbs: [get, list, watch, create, patch, delete]
{{- end -}}

{{- define "tf-operator.leaseRules" -}}
# A create cannot be limited by name: the server does not know the name yet when it decides.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
# get, update: acquire, renew and release.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "tf-operator.leaseName" . | quote }}]
  verbs: [get, update]
{{- end -}}

{{- define "tf-operator.viewRules" -}}
- apiGroups: [kubeflow.org]
  resources: [tfjobs, tfjobs/status, tfjobs/scale]
  verbs: [get, list, watch]
{{- end -}}

{{- define "tf-operator.editRules" -}}
- apiGroups: [kubeflow.org]
  resources: [tfjobs]
  verbs: [create, update, patch, delete, deletecollection]
- apiGroups: [kubeflow.org]
  resources: [tfjobs/scale]
  verbs: [update, patch]
{{- end -}}

{{- define "tf-operator.mlkubeRules" -}}
# get: a live read before anything irreversible; list, watch: the cache.
- apiGroups: [mlkube.io]
  resources: [tfjobs]
  verbs: [get, list, watch]
# Status is written by patch only, guarded by resourceVersion; spec and metadata are the user's.
- apiGroups: [mlkube.io]
  resources: [tfjobs/status]
  verbs: [patch]
# Not to set finalizers, there are none: where OwnerReferencesPermissionEnforcement is on, this is what
# blockOwnerDeletion in the owner references of children asks for.
- apiGroups: [mlkube.io]
  resources: [tfjobs/finalizers]
  verbs: [update]
# A pod that still runs when its job has ended is stopped by a deadline and kept, for its log.
- apiGroups: [""]
  resources: [pods]
  verbs: [patch]
{{- end -}}

{{- define "tf-operator.mlkubeViewRules" -}}
- apiGroups: [mlkube.io]
  resources: [tfjobs, tfjobs/status]
  verbs: [get, list, watch]
{{- end -}}

{{- define "tf-operator.mlkubeEditRules" -}}
- apiGroups: [mlkube.io]
  resources: [tfjobs]
  verbs: [create, update, patch, delete, deletecollection]
{{- end -}}

{{- define "tf-operator.t9kRules" -}}
# get: a live read before anything irreversible; list, watch: the cache.
- apiGroups: [batch.tensorstack.dev]
  resources: [tensorflowtrainingjobs]
  verbs: [get, list, watch]
# Status is written by patch only, guarded by resourceVersion; spec and metadata are the user's.
- apiGroups: [batch.tensorstack.dev]
  resources: [tensorflowtrainingjobs/status]
  verbs: [patch]
# Not to set finalizers, there are none: where OwnerReferencesPermissionEnforcement is on, this is what
# blockOwnerDeletion in the owner references of children asks for.
- apiGroups: [batch.tensorstack.dev]
  resources: [tensorflowtrainingjobs/finalizers]
  verbs: [update]
# The PodGroup of a job that asks for T9k Scheduler.
- apiGroups: [scheduler.tensorstack.dev]
  resources: [podgroups]
  verbs: [get, list, watch, create, patch, delete]
{{- end -}}

{{- define "tf-operator.t9kViewRules" -}}
- apiGroups: [batch.tensorstack.dev]
  resources: [tensorflowtrainingjobs, tensorflowtrainingjobs/status]
  verbs: [get, list, watch]
{{- end -}}

{{- define "tf-operator.t9kEditRules" -}}
- apiGroups: [batch.tensorstack.dev]
  resources: [tensorflowtrainingjobs]
  verbs: [create, update, patch, delete, deletecollection]
{{- end -}}

{{- define "tf-operator.metricsAuthRules" -}}
# Whose token is this? The reply has the user's name and groups.
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
# May this user read /metrics? With this right, one can find out what any user may do.
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end -}}

{{- define "tf-operator.metricsReaderRules" -}}
# A path of the operator, not an object of the API server.
- nonResourceURLs: [/metrics]
  verbs: [get]
{{- end -}}
