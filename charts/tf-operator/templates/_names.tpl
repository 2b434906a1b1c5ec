{{/* Names, labels and other words that several objects share. */}}

{{- define "tf-operator.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Short enough for "-leader-election" and the like behind it. */}}
{{- define "tf-operator.fullname" -}}
{{- $name := include "tf-operator.name" . -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- .Values.fullnameOverride | default $full | trunc 45 | trimSuffix "-" -}}
{{- end -}}

{{- define "tf-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "tf-operator.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: controller
{{- end -}}

{{- define "tf-operator.labels" -}}
{{ include "tf-operator.selectorLabels" . }}
{{ include "tf-operator.releaseLabels" . }}
{{- end -}}

{{/* The labels of an object that has more of them. Takes the root context and these. */}}
{{- define "tf-operator.labelsAnd" -}}
{{- merge (deepCopy (index . 1)) (include "tf-operator.labels" (index . 0) | fromYaml) | toYaml -}}
{{- end -}}

{{/* Those of objects that belong to the release, but not to the operator's pods. */}}
{{- define "tf-operator.releaseLabels" -}}
{{- with .Values.commonLabels }}
{{- toYaml . }}
{{ end -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: tf-operator
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- define "tf-operator.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "tf-operator.fullname" .) -}}
{{- else -}}
{{- required "serviceAccount.name is needed when serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "tf-operator.leaseName" -}}
{{- .Values.leaderElection.leaseName | default (include "tf-operator.fullname" .) -}}
{{- end -}}

{{/*
Whether the operator that is deployed keeps to no Lease or to another one, so that in a rollout both would work. Without
a cluster nobody knows. Who upgrades may read the Deployment, because he writes it.
*/}}
{{- define "tf-operator.leavesLease" -}}
{{- $deployed := lookup "apps/v1" "Deployment" .Release.Namespace (include "tf-operator.fullname" .) | default dict -}}
{{- range dig "spec" "template" "spec" "containers" list $deployed -}}
{{- if eq .name "operator" -}}
{{- $theirs := include "tf-operator.leaseFlags" .args -}}
{{- $arguments := concat (include "tf-operator.arguments" $ | fromYamlArray) ($.Values.extraArgs | default list) -}}
{{- if ne $theirs (include "tf-operator.leaseFlags" $arguments) -}}yes{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Of arguments, those that say which Lease there is. */}}
{{- define "tf-operator.leaseFlags" -}}
{{- $flags := list -}}
{{- range . -}}
{{- if has (include "tf-operator.flag" .) (list "leader-elect" "leader-election-id" "leader-election-namespace") -}}
{{- $flags = append $flags . -}}
{{- end -}}
{{- end -}}
{{- sortAlpha $flags | join " " -}}
{{- end -}}

{{/* The ConfigMap with the controller configuration; empty for none. */}}
{{- define "tf-operator.config" -}}
{{- with .Values.config -}}
{{- not (empty .inline) | ternary (printf "%s-config" (include "tf-operator.fullname" $)) .configmap -}}
{{- end -}}
{{- end -}}

{{- define "tf-operator.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{- printf "%s@%s" .repository .digest -}}
{{- else -}}
{{- printf "%s:%s" .repository (.tag | default $.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What Pod Security "restricted" asks of a container, and a root file system that nobody writes to. */}}
{{- define "tf-operator.containerSecurity" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
privileged: false
readOnlyRootFilesystem: true
{{- end -}}

{{- define "tf-operator.podSecurity" -}}
runAsNonRoot: true
{{- with .Values.securityContext.runAsUser }}
runAsUser: {{ int64 . }}
{{- end }}
{{- with .Values.securityContext.runAsGroup }}
runAsGroup: {{ int64 . }}
{{- end }}
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{/* The Secret with the certificate of protected metrics; nothing when the operator makes its own. */}}
{{- define "tf-operator.metricsCertificate" -}}
{{- with .Values.metrics -}}{{- if and .enabled .secure.enabled -}}{{- .secure.certificateSecret -}}{{- end -}}{{- end -}}
{{- end -}}

{{/* Where the job of `helm test` runs. */}}
{{- define "tf-operator.testNamespace" -}}
{{- $served := .Values.watch.namespaces -}}
{{- if .Values.test.namespace -}}
{{- .Values.test.namespace -}}
{{- else if or (not $served) (has .Release.Namespace $served) -}}
{{- .Release.Namespace -}}
{{- else -}}
{{- first $served -}}
{{- end -}}
{{- end -}}

{{/* The constraints of topology spread, each with a selector; nothing when there are none. */}}
{{- define "tf-operator.spread" -}}
{{- $own := dict "matchLabels" (include "tf-operator.selectorLabels" . | fromYaml) -}}
{{- $all := list -}}
{{- range .Values.topologySpreadConstraints -}}
{{- $all = append $all (hasKey . "labelSelector" | ternary . (set (deepCopy .) "labelSelector" $own)) -}}
{{- end -}}
{{- with $all -}}{{- toYaml . -}}{{- end -}}
{{- end -}}

{{/* The Service of the webhook that converts older versions; its certificate is for this name, too. */}}
{{- define "tf-operator.webhookService" -}}
{{- include "tf-operator.fullname" . }}-webhook
{{- end -}}

{{/*
Whether its certificate is in a Secret that the operator only reads: one that is given, or, where the operator serves
only some namespaces and has no right on the CRD, one that Helm makes.
*/}}
{{- define "tf-operator.webhookCertificate" -}}
{{- if and .Values.apis.kubeflow.oldVersions (or .Values.apis.webhook.certificateSecret .Values.watch.namespaces) -}}
yes
{{- end -}}
{{- end -}}

{{/* That of Helm: the data of its Secret, made once. The operator's own is not taken, because nobody would renew it. */}}
{{- define "tf-operator.madeCertificate" -}}
{{- $webhook := .Values.apis.webhook -}}
{{- if not (hasKey $webhook "made") -}}
{{- $found := lookup "v1" "Secret" .Release.Namespace (include "tf-operator.webhookSecret" .) | default dict -}}
{{- $made := pick ($found.data | default dict) "ca.crt" "tls.crt" "tls.key" -}}
{{- $notes := dig "metadata" "annotations" dict $found | default dict -}}
{{- if not (and (eq (len $made) 3) (hasKey $notes "tf-operator.kubeflow.org/made-by-helm")) -}}
{{- $host := printf "%s.%s.svc" (include "tf-operator.webhookService" .) .Release.Namespace -}}
{{- $authority := genCA "tf-operator conversion webhook" 3650 -}}
{{- $pair := genSignedCert $host nil (list $host) 3650 $authority -}}
{{- $made = dict "ca.crt" (b64enc $authority.Cert) "tls.crt" (b64enc $pair.Cert) "tls.key" (b64enc $pair.Key) -}}
{{- end -}}
{{- $_ := set $webhook "made" $made -}}
{{- end -}}
{{- toYaml $webhook.made -}}
{{- end -}}

{{/* Where its certificate is: one of the operator's own, unless a Secret is given. */}}
{{- define "tf-operator.webhookSecret" -}}
{{- .Values.apis.webhook.certificateSecret | default (printf "%s-webhook" (include "tf-operator.fullname" .)) -}}
{{- end -}}

{{/* How pods reach the operator to report their progress; its certificate is for this name. */}}
{{- define "tf-operator.progressHost" -}}
{{- include "tf-operator.fullname" . }}-progress.{{ .Release.Namespace }}.svc
{{- end -}}

{{- define "tf-operator.progressSecret" -}}
{{- .Values.progress.certificateSecret | default (printf "%s-progress" (include "tf-operator.fullname" .)) -}}
{{- end -}}

{{/* The certificate that Helm makes for it, and keeps in upgrades: pods that run trust this authority and no other. */}}
{{- define "tf-operator.progressPair" -}}
{{- $stored := lookup "v1" "Secret" .Release.Namespace (include "tf-operator.progressSecret" .) | default dict -}}
{{- $pair := pick ($stored.data | default dict) "ca.crt" "tls.crt" "tls.key" -}}
{{- if ne (len $pair) 3 -}}
{{- $host := include "tf-operator.progressHost" . -}}
{{- /* ECDSA, because most clients shake hands for each report: with RSA that takes twice the CPU. */ -}}
{{- $authority := genCAWithKey "tf-operator progress" 3650 (genPrivateKey "ecdsa") -}}
{{- $made := genSignedCertWithKey "tf-operator-progress" nil (list $host) 3650 $authority (genPrivateKey "ecdsa") -}}
{{- $pair = dict "ca.crt" (b64enc $authority.Cert) "tls.crt" (b64enc $made.Cert) "tls.key" (b64enc $made.Key) -}}
{{- end -}}
{{- toYaml $pair -}}
{{- end -}}
