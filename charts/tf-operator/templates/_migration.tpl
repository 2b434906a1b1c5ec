{{/*
A hook that has all TFJobs stored in v1, with rights that nobody has after it. When it fails, so does what Helm was to do:
the log of its pod says why. Takes the root context, the name of the hook, and more arguments.
*/}}
{{- define "tf-operator.migration" -}}
{{- $root := index . 0 -}}
{{- $hook := index . 1 -}}
{{- $name := printf "%s-%s" (include "tf-operator.fullname" $root) $hook -}}
{{- $labels := printf "%s\napp.kubernetes.io/name: %q\napp.kubernetes.io/instance: %q\napp.kubernetes.io/component: migration" (include "tf-operator.releaseLabels" $root) (include "tf-operator.name" $root) $root.Release.Name -}}
{{- $before := printf "helm.sh/hook: %s\nhelm.sh/hook-weight: \"-1\"\nhelm.sh/hook-delete-policy: before-hook-creation,hook-succeeded" $hook }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $name | quote }}
  namespace: {{ $root.Release.Namespace | quote }}
  labels:
    {{- $labels | nindent 4 }}
  annotations:
    {{- $before | nindent 4 }}
automountServiceAccountToken: false
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $name | quote }}
  labels:
    {{- $labels | nindent 4 }}
  annotations:
    {{- $before | nindent 4 }}
rules:
  # Each job is written as it is.
  - apiGroups: [kubeflow.org]
    resources: [tfjobs]
    verbs: [list, patch]
  # Which versions are stored, and which are served.
  - apiGroups: [apiextensions.k8s.io]
    resources: [customresourcedefinitions, customresourcedefinitions/status]
    resourceNames: [tfjobs.kubeflow.org]
    verbs: [get, patch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $name | quote }}
  labels:
    {{- $labels | nindent 4 }}
  annotations:
    {{- $before | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $name | quote }}
subjects:
  - kind: ServiceAccount
    name: {{ $name | quote }}
    namespace: {{ $root.Release.Namespace | quote }}
{{- include "tf-operator.hookNetworkPolicy" (list $root $name $root.Release.Namespace $labels $before) }}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ $name | quote }}
  namespace: {{ $root.Release.Namespace | quote }}
  labels:
    {{- $labels | nindent 4 }}
  annotations:
    helm.sh/hook: {{ $hook }}
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
    # It runs once and ends: there is nothing to probe. The image is the operator's: see there.
    kube-score/ignore: pod-probes,container-image-pull-policy
    checkov.io/skip1: CKV_K8S_8=It runs once and ends.
    checkov.io/skip2: CKV_K8S_9=It runs once and ends.
    checkov.io/skip3: CKV_K8S_38=It writes TFJobs.
spec:
  # Whoever runs Helm reads why, and tries again.
  backoffLimit: 0
  activeDeadlineSeconds: 600
  template:
    metadata:
      labels:
        {{- include "tf-operator.hookPodLabels" (list $root $labels) | nindent 8 }}
      annotations:
        # A sidecar would never end.
        sidecar.istio.io/inject: "false"
        kube-score/ignore: pod-probes,container-image-pull-policy
    spec:
      restartPolicy: Never
      serviceAccountName: {{ $name | quote }}
      automountServiceAccountToken: true
      enableServiceLinks: false
      {{- include "tf-operator.placement" $root | trim | nindent 6 }}
      containers:
        - name: migration
          image: {{ include "tf-operator.image" $root | quote }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          args:
            - crd
            - migrate
            {{- range index . 2 }}
            - {{ . }}
            {{- end }}
          {{- with $root.Values.extraEnv }}
          env:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- with $root.Values.extraEnvFrom }}
          envFrom:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          resources:
            {{- toYaml $root.Values.resources | nindent 12 }}
          securityContext:
            {{- include "tf-operator.containerSecurity" $root | nindent 12 }}
          {{- with $root.Values.extraVolumeMounts }}
          volumeMounts:
            {{- toYaml . | nindent 12 }}
          {{- end }}
      {{- with $root.Values.extraVolumes }}
      volumes:
        {{- toYaml . | nindent 8 }}
      {{- end }}
{{- end -}}
